//! What is known of the record and of the keys: older knowledge is ignored, newer replaces what was
//! known.

use super::Participant;
use super::contender::{Contender, ContenderNo, Course, Entry, Key as OwnKey, KeyState, Stand};
use super::reads::Due;
use super::record::{Content, News, Told};
use crate::defect::{Defect, is_on};
use crate::error::Lost;
use crate::id::SessionId;
use crate::machine::process::moment::Moment;
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;
use crate::view::{Contender as Shown, Key, Lock, View};
use crate::work;

/// How a list was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) moment: Moment,
    pub(super) sent_at: Instant,
    /// The leader has confirmed it with the majority.
    pub(super) is_confirmed: bool,
    /// The tree of a transaction: it does not say what it leaves out.
    pub(super) is_tree: bool,
}

impl Participant {
    /// Takes a record, if it is newer than the known one.
    pub(super) fn learn_record(&mut self, now: Instant, told: Told) -> News {
        let news = self.known.record.compare(told.lock.as_ref(), told.as_of);
        match news {
            News::Older => {}
            News::Same => self.known.record.confirm(now, told.moment, told.as_of),
            News::Newer => self.replace_record(now, told),
        }
        news
    }

    pub(super) fn replace_record(&mut self, now: Instant, told: Told) {
        let Told {
            moment,
            lock,
            as_of,
            is_ours,
        } = told;
        let before = self.known.record.replace(now, moment, lock, as_of);
        self.known.missing.clear_suspects();
        self.reads.is_touched = false;
        self.reads.satisfied(Due::Record);
        let none = Record::new(1);
        let before = match &before {
            Content::Record(record) => record,
            _ => &none,
        };
        let after = self.known.record.get().unwrap_or(&none);
        let added: Vec<String> = after.beyond(before).map(str::to_owned).collect();
        let removed: Vec<String> = before.beyond(after).map(str::to_owned).collect();
        work::passed(added.len() + removed.len());
        for name in &added {
            match self.ours.of_session(name) {
                Some(no) => self.compare_with_record(now, no, is_ours),
                None => {
                    // Rule 5. Who is named there has been served.
                    if let Some(session) = SessionId::read(name) {
                        self.known.line.served(&session);
                    }
                }
            }
        }
        for name in &removed {
            if let Some(no) = self.ours.of_session(name) {
                self.compare_with_record(now, no, is_ours);
            }
        }
    }

    /// What the record says of one of ours. While a write of it is under way, nothing is concluded.
    pub(super) fn compare_with_record(&mut self, now: Instant, no: ContenderNo, is_ours: bool) {
        if self.is_under_way(no) {
            return;
        }
        let Some(contender) = self.ours.get(no) else {
            return;
        };
        let Some(session) = contender.session().cloned() else {
            return;
        };
        let is_named = self.known.record.names(session.as_str());
        if contender.is_named == is_named {
            return;
        }
        let course = contender.course();
        self.ours.change(no, |it| {
            it.is_named = is_named;
            if is_named {
                it.slot_since = now;
            }
        });
        match course {
            Course::Holding { .. } if !is_named && !is_on(Defect::EvictionUnnoticed) => {
                let lost = Lost::RemovedFromHolders {
                    session,
                    on: Subject::default(),
                };
                self.lose(now, no, lost);
            }
            // A write of ours that ended as unknown was applied.
            Course::Here if is_named && !is_ours => {
                tracing::debug!(name: "claim-found", "a write without an answer was applied");
                self.reads.require(Due::List);
            }
            // The slot that was to be handed over is gone.
            Course::Here if !is_named => self.given_back(no),
            _ => {}
        }
    }

    pub(super) fn is_under_way(&self, no: ContenderNo) -> bool {
        let step = self.writes.step.as_ref();
        step.is_some_and(|(step, _)| step.is_about(no))
    }

    /// A list of the prefix, with the record in it. Returns whether it was taken, and is no older than
    /// what was known.
    pub(super) fn learn_list(&mut self, now: Instant, view: &View, reading: Reading) -> bool {
        let news = self.known.record.compare(view.lock(), view.index());
        let newest = self.ours.all().map(|(_, it)| it.index()).max();
        let is_older = news == News::Older || newest.is_some_and(|index| index > view.version());
        let is_restored = self.is_restored(reading) && !is_on(Defect::IndexResetIgnored);
        let replaces = is_older && (is_restored || is_on(Defect::OlderViewAccepted));
        if is_older && !replaces {
            if reading.is_confirmed {
                self.reads.failed(now, &mut self.rng);
            }
            self.reads.require(Due::ConfirmedList);
            return false;
        }
        if view.is_filtered() && !is_on(Defect::PruneFiltered) {
            // What it shows is there. Nothing follows from what it lacks.
            if let Some(lock) = view.lock().cloned() {
                self.learn_record(now, told_by(view, reading, Some(lock)));
            }
            self.compare_keys(now, view, reading);
            self.reads.failed(now, &mut self.rng);
            self.reads.satisfied(Due::ConfirmedList);
            self.fail_incomplete(now);
            return false;
        }
        let lock = view.lock().cloned();
        if replaces {
            self.replace_record(now, told_by(view, reading, lock));
            // If a server contradicts itself for ever, each time later.
            self.reads.failed(now, &mut self.rng);
        } else {
            self.learn_record(now, told_by(view, reading, lock));
        }
        let due = self.compare_keys(now, view, reading);
        let ours = &self.ours;
        self.known
            .line
            .replace(view, |session| ours.of_session(session.as_str()).is_some());
        if !reading.is_tree {
            self.known.line.listed(reading.sent_at);
            self.known.listed = reading.moment;
            self.known.shown = reading.moment;
        }
        self.reads.satisfied(Due::ConfirmedList);
        if reading.is_confirmed {
            self.reads.is_touched = false;
        }
        self.observe_missing(now, view, reading);
        if self.situation(now).has_others() {
            self.known.line.saw_others(now);
        }
        self.reads.require(due);
        !replaces
    }

    /// Whether an older list is what there is now, after a restored snapshot: the leader has
    /// confirmed it, it was sent after the answer that tells us of newer things, and no write of ours
    /// was under way then or is now.
    fn is_restored(&self, reading: Reading) -> bool {
        reading.is_confirmed
            && reading.moment > self.known.record.seen()
            && reading.moment > self.writes.ended
            && self.writes.step.is_none()
    }

    /// Compares our keys with a list. Returns what must be read because of it.
    fn compare_keys(&mut self, now: Instant, view: &View, reading: Reading) -> Due {
        let mut due = Due::Nothing;
        let is_there = |no: &ContenderNo| {
            let session = self.ours.get(*no).and_then(|it| it.session());
            session.is_some_and(|it| !matches!(view.key(it), Key::Absent))
        };
        let numbers = self.ours.numbers();
        let shows_ours = numbers.iter().any(is_there);
        let mut lacking = Vec::new();
        for no in numbers {
            let Some(contender) = self.ours.get(no) else {
                continue;
            };
            let Some(session) = contender.session().cloned() else {
                continue;
            };
            if self.is_under_way(no) {
                continue;
            }
            // A key that is still tied was hidden when its session was taken for gone.
            let is_absent = matches!(view.key(&session), Key::Absent);
            if is_absent && view.is_filtered() {
                continue;
            }
            if contender.loan.is_gone() && !matches!(view.key(&session), Key::Tied(_)) {
                self.ours.change(no, |it| it.key = None);
                continue;
            }
            match view.key(&session) {
                Key::Tied(shown) => {
                    if reading.is_confirmed {
                        self.ours.change(no, |it| it.loan.lived(reading.sent_at));
                    }
                    self.saw_key(now, no, shown);
                }
                Key::Free(index) => {
                    let created = contender.created().unwrap_or(index);
                    self.ours.change(no, |it| {
                        it.key = Some(OwnKey {
                            index,
                            created,
                            lock_index: 0,
                            state: KeyState::Untied,
                        });
                    });
                    self.lose_key(now, no, session);
                }
                Key::Taken => {
                    self.ours.change(no, |it| {
                        it.key = None;
                        it.is_taken = true;
                    });
                    self.lose_key(now, no, session);
                }
                Key::Absent if contender.key.is_none() => {}
                Key::Absent if !shows_ours => lacking.push(no),
                Key::Absent => {
                    let is_leaving = matches!(contender.course(), Course::Leaving { .. });
                    let is_over = is_leaving && !contender.is_named;
                    if is_over || reading.is_confirmed {
                        self.key_is_gone(now, no, session);
                    } else {
                        due = Due::ConfirmedList;
                    }
                }
            }
        }
        if lacking.is_empty() {
            return due;
        }
        if !reading.is_confirmed {
            return Due::ConfirmedList;
        }
        self.lack_all(now, lacking, view.lock().is_some());
        due
    }

    /// A confirmed list shows no key of ours, and lacks these: it was filtered, or they were deleted
    /// by hand, or by a write whose answer was lost. Waiters enter again, which tells. A holder can't
    /// wait for that: who sees the record and none of our keys is not blind.
    fn lack_all(&mut self, now: Instant, lacking: Vec<ContenderNo>, shows_record: bool) {
        for no in lacking {
            let contender = self.ours.get(no);
            let stand = contender.map(Contender::stand);
            let session = contender.and_then(|it| it.session().cloned());
            match (stand, session) {
                (Some(Stand::Waiting), _) => {
                    self.ours.change(no, |it| {
                        it.key = None;
                        if it.entry != Entry::Unseen {
                            it.entry = Entry::Open;
                        }
                    });
                }
                (Some(stand), Some(session)) if stand.leaves() || shows_record => {
                    self.key_is_gone(now, no, session);
                }
                _ => {}
            }
        }
    }

    /// A list shows the key of one of ours.
    pub(super) fn saw_key(&mut self, now: Instant, no: ContenderNo, shown: &Shown) {
        self.ours.change(no, |it| it.saw(shown));
        let Some(reason) = shown.eviction.clone() else {
            return;
        };
        let lost = Lost::Evicted {
            session: shown.session.clone(),
            reason,
            on: Subject::default(),
        };
        self.lose(now, no, lost);
    }

    fn lose_key(&mut self, now: Instant, no: ContenderNo, session: SessionId) {
        let lost = Lost::ContenderKeyTaken {
            session,
            on: Subject::default(),
        };
        self.lose(now, no, lost);
    }

    /// Its key was there, and is not any more.
    fn key_is_gone(&mut self, now: Instant, no: ContenderNo, session: SessionId) {
        let is_leaving = self.ours.get(no).is_some_and(|it| it.stand().leaves());
        self.ours.change(no, |it| {
            it.key = None;
            if !is_leaving {
                it.loan.found_gone();
            }
        });
        let lost = Lost::SessionGone {
            session,
            key_alone: true,
            on: Subject::default(),
        };
        self.lose(now, no, lost);
    }

    /// Rule 8. Who is named without a key.
    fn observe_missing(&mut self, now: Instant, view: &View, reading: Reading) {
        let ours = &self.ours;
        let is_shown = |it: &Contender| {
            let session = it.session();
            session.is_some_and(|it| matches!(view.key(it), Key::Tied(_)))
        };
        let mut keys = self
            .ours
            .all()
            .filter(|(_, it)| it.key.is_some())
            .peekable();
        let shows_ours = keys.peek().is_none() || keys.any(|(_, it)| is_shown(it));
        let is_as_new = view.record_index() == self.known.record.index();
        let counts = !reading.is_tree && shows_ours && is_as_new && !view.is_filtered();
        let before = self.known.missing.suspects();
        let record = &self.known.record;
        self.known.missing.observe(
            now,
            view,
            |session| record.names(session) && ours.of_session(session).is_none(),
            counts,
        );
        if self.known.missing.suspects() > before {
            tracing::debug!(name: "holder-without-key", "a holder has no contender key any more");
        }
        let patience = core::time::Duration::from_millis(500);
        if reading.is_tree
            && self.known.missing.has_new_keyless()
            && self.reads.saw_keyless(now, patience)
        {
            self.reads.require(Due::List);
        }
    }
}

fn told_by(view: &View, reading: Reading, lock: Option<Lock>) -> Told {
    Told {
        moment: reading.moment,
        lock,
        as_of: view.index(),
        is_ours: true,
    }
}
