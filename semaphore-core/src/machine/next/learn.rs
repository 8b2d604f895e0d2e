//! What reads, polls and sessions say: older knowledge is ignored, newer replaces what was known.

use std::collections::BTreeMap;

use super::contender::{Contender, ContenderNo, Course, Key as OwnKey, KeyState, Stand};
use super::reads::{Due, Read, Target};
use super::record::{Content, News};
use super::{From, Participant};
use crate::api::{Entry, ListKeys, ReadKey, Txn, TxnOutcome};
use crate::error::{Error, Lost, RequestError};
use crate::http::Response;
use crate::id::{CommandId, Index, SessionId};
use crate::input::LOCK_NAME;
use crate::machine::contract::Machine as _;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::check::{Check, CheckNews, Reads as Readers, Stance};
use crate::machine::process::tenancy::loan::LoanNews;
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;
use crate::view::{Contender as Shown, ContenderFlags, Key, Lock, View};
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

/// What a read shows.
enum Shows<'a> {
    Record((Index, Option<Entry<'a>>)),
    List(Box<View>),
}

impl Participant {
    pub(super) fn take_read(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        let Some((read, moment, sent_at)) = self.reads.answered(now) else {
            return;
        };
        let prefix = &self.settings.prefix;
        let shown = match read {
            Read::Record => answer.and_then(ReadKey::parse_at).map(Shows::Record),
            Read::List { .. } => answer
                .and_then(ListKeys::parse)
                .map(|list| Shows::List(Box::new(View::new(prefix, &list)))),
        };
        if shown.is_ok() {
            self.reads.succeeded();
            self.note(now, None);
        }
        match shown {
            Ok(Shows::Record((index, entry))) => {
                self.take_record(now, moment, entry.as_ref(), index);
            }
            Ok(Shows::List(view)) => {
                let reading = Reading {
                    moment,
                    sent_at,
                    is_confirmed: read == (Read::List { is_confirmed: true }),
                    is_tree: false,
                };
                self.learn_list(now, &view, reading);
            }
            Err(error) => {
                self.reads.failed(now, &mut self.rng);
                self.read_failed(now, error);
            }
        }
    }

    /// A read or a poll of the record alone.
    fn take_record(
        &mut self,
        now: Instant,
        moment: Moment,
        entry: Option<&Entry<'_>>,
        as_of: Index,
    ) -> News {
        let lock = entry.map(Lock::new);
        let news = self.learn_record(now, moment, lock, as_of, false);
        if news == News::Older {
            self.reads.require(Due::ConfirmedList);
        }
        // A write was refused, or a key was touched: what follows needs a newer record. If the same
        // comes, a lagging server answered, or nothing has changed after all.
        if news == News::Same && self.reads.due() == Due::Record {
            self.reads.require(Due::ConfirmedList);
        }
        if news != News::Older {
            self.reads.is_touched = false;
            self.reads.satisfied(Due::Record);
        }
        news
    }

    pub(super) fn take_poll(
        &mut self,
        now: Instant,
        moment: Moment,
        sent_at: Instant,
        answer: Result<&Response, RequestError>,
    ) {
        let Some((target, from, is_early)) = self.reads.poll_ended(now) else {
            return;
        };
        let moved = match &target {
            Target::Record => answer.and_then(ReadKey::parse_at).map(|(index, entry)| {
                let known = self.known.record.polled_from();
                self.take_record(now, moment, entry.as_ref(), index) != News::Same || known > from
            }),
            Target::Prefix => answer.and_then(ListKeys::parse).map(|list| {
                let view = View::new(&self.settings.prefix, &list);
                let reading = Reading {
                    moment,
                    sent_at,
                    is_confirmed: false,
                    is_tree: false,
                };
                let moved = view.index() != from;
                self.learn_list(now, &view, reading);
                moved
            }),
            Target::Ahead(session) => answer
                .and_then(ReadKey::parse_at)
                .map(|(_, entry)| self.saw_ahead(session, entry.as_ref())),
            Target::Own(session) => answer
                .and_then(ReadKey::parse_at)
                .map(|(_, entry)| self.saw_own(session, entry.as_ref())),
        };
        match moved {
            Ok(has_moved) => {
                self.note(now, None);
                if has_moved || !is_early {
                    self.reads.poll_succeeded();
                } else {
                    // An agent ends all polls when a snapshot is restored, with the old index.
                    self.reads.require(Due::List);
                    self.reads.poll_failed(now, &mut self.rng);
                }
                self.list_in_time(now, has_moved, &target);
            }
            Err(error) => {
                self.reads.poll_failed(now, &mut self.rng);
                // The agent may have lost its state, and what we poll from with it.
                self.reads.require(Due::List);
                let is_anothers = matches!(target, Target::Ahead(_));
                if is_anothers && error.is_permanent() {
                    self.fail_waiting(now, |_| Error::Request(error.clone()));
                }
                self.read_failed(now, error);
            }
        }
    }

    /// However a poll of a waiter ended, it lists if the newest list is old: a death does not change
    /// the record. Otherwise, if nothing has changed, the record is read.
    fn list_in_time(&mut self, now: Instant, has_moved: bool, target: &Target) {
        let Some(first) = self.situation(now).first_waiter() else {
            return;
        };
        let rank = u32::try_from(self.known.line.rank(first.created)).unwrap_or(u32::MAX);
        let age = super::rules::POLL.saturating_mul(rank.saturating_add(1));
        let is_old = self.known.line.listed_at().is_none_or(|at| at + age <= now);
        if is_old {
            self.reads.require(Due::List);
        } else if !has_moved && *target != Target::Record {
            self.reads.is_touched = true;
        }
    }

    /// Rule 5. The key just ahead, by our poll. Whether it has changed.
    fn saw_ahead(&mut self, session: &SessionId, entry: Option<&Entry<'_>>) -> bool {
        let Some(known) = self.known.line.get(session) else {
            return true;
        };
        let shown = entry
            .filter(|entry| entry.session() == Some(session.as_str()))
            .map(|entry| Shown::new(session.clone(), entry));
        let Some(shown) = shown.filter(|it| it.create_index == known.created) else {
            // Deleted, untied or entered again: it says nothing about those before it.
            self.reads.require(Due::List);
            return true;
        };
        if shown.modify_index == known.modified {
            return false;
        }
        let is_leaving = ContenderFlags::is_parked(shown.flags) || shown.eviction.is_some();
        if is_leaving || shown.modify_index < known.modified {
            self.reads.require(Due::List);
        } else {
            self.known.line.served(session);
            // It names the one that was served, or has moved on.
            self.reads.is_touched = true;
        }
        true
    }

    /// The key of a holder of ours, by its poll. Whether it has changed.
    fn saw_own(&mut self, session: &SessionId, entry: Option<&Entry<'_>>) -> bool {
        let known = self.ours.of_session(session.as_str());
        let known = known.and_then(|no| self.ours.get(no));
        let index = known.map_or(Index::ZERO, Contender::index);
        let shown = entry.map_or(Index::ZERO, Entry::modify_index);
        if shown != index {
            self.reads.require(Due::List);
        }
        shown != index
    }

    /// Takes what a proof says of our keys and of the record.
    pub(super) fn take_proof(
        &mut self,
        now: Instant,
        no: u32,
        moment: Moment,
        answer: Result<&Response, RequestError>,
    ) {
        let Some(proof) = self.proofs.answered(no) else {
            return;
        };
        let entries = match answer.and_then(Txn::parse) {
            Ok(TxnOutcome::Applied(results)) => results.entries,
            Ok(TxnOutcome::RolledBack(_)) => return,
            Err(error) => {
                self.note(now, Some(error));
                return;
            }
        };
        self.note(now, None);
        let prefix = self.settings.prefix.clone();
        let mut shown: BTreeMap<&str, &Entry<'_>> = BTreeMap::new();
        for entry in &entries {
            shown.extend(prefix.child_name(entry.key()).map(|name| (name, entry)));
        }
        if let Some(entry) = shown.get(LOCK_NAME) {
            let lock = Lock::new(entry);
            let index = lock.modify_index;
            self.learn_record(now, moment, Some(lock), index, false);
        } else if self.known.record.get().is_some() {
            self.reads.require(Due::List);
        }
        for no in proof.asked {
            let contender = self.ours.get(no);
            let Some(session) = contender.and_then(|it| it.session().cloned()) else {
                continue;
            };
            let entry = shown.get(session.as_str());
            let is_tied = |it: &&&Entry<'_>| it.session() == Some(session.as_str());
            match entry.filter(is_tied) {
                Some(entry) => {
                    let held = self.held_until(no);
                    self.ours.change(no, |it| it.was_proved(proof.sent_at));
                    self.tell_renewal(now, no, held);
                    let key = Shown::new(session, entry);
                    let is_newer = self
                        .ours
                        .get(no)
                        .is_some_and(|it| it.key.is_some_and(|it| it.index < key.modify_index));
                    if is_newer && !self.is_under_way(no) {
                        self.saw_key(now, no, &key);
                    }
                }
                // It was deleted, or may not be read any more.
                None if self.ours.get(no).map(Contender::stand) == Some(Stand::Holding) => {
                    self.reads.require(Due::ConfirmedList);
                }
                None => {}
            }
        }
    }

    /// Tells observers that a belief lasts longer than before.
    fn tell_renewal(
        &mut self,
        now: Instant,
        no: ContenderNo,
        before: Option<(CommandId, Instant)>,
    ) {
        if let (Some((_, before)), Some((acquire, until))) = (before, self.held_until(no))
            && before < until
        {
            let notices = self.callers.notices_mut();
            notices.renewed(now, acquire, before, until);
        }
    }

    fn read_failed(&mut self, now: Instant, error: RequestError) {
        if error.is_permanent() {
            self.fail_waiting(now, |_| Error::Request(error.clone()));
        }
        if matches!(error, RequestError::InvalidKey { .. }) {
            // Such a key will never be read again, so an eviction would not be noticed.
            for no in self.ours.numbers_of(Stand::Holding) {
                let session = self.ours.get(no).and_then(|it| it.session().cloned());
                if let Some(session) = session {
                    let lost = Lost::Unreadable {
                        session,
                        refusal: error.clone(),
                        on: Subject::default(),
                    };
                    self.lose(now, no, lost);
                }
            }
        }
        // A release reads first.
        self.writes.is_held_up |= self.ours.count(Stand::Leaving) > 0;
        self.leaving_failed(&error);
        self.note(now, Some(error));
    }

    /// Takes a record, if it is newer than the known one. `is_ours`: an applied write of ours shows
    /// it, so its names are no news.
    pub(super) fn learn_record(
        &mut self,
        now: Instant,
        moment: Moment,
        lock: Option<Lock>,
        as_of: Index,
        is_ours: bool,
    ) -> News {
        let index = lock.as_ref().map_or(Index::ZERO, |it| it.modify_index);
        let news = self.known.record.compare(index, as_of);
        match news {
            News::Older => return news,
            News::Same => {
                self.known.record.confirm(now, moment, as_of);
                return news;
            }
            News::Newer => {}
        }
        self.replace_record(now, moment, lock, as_of, is_ours);
        News::Newer
    }

    fn replace_record(
        &mut self,
        now: Instant,
        moment: Moment,
        lock: Option<Lock>,
        as_of: Index,
        is_ours: bool,
    ) {
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
        let course = contender.course;
        self.ours.change(no, |it| {
            it.is_named = is_named;
            if is_named {
                it.slot_since = now;
            }
        });
        match course {
            Course::Holding { .. } if !is_named => {
                let lost = Lost::RemovedFromHolders {
                    session,
                    on: Subject::default(),
                };
                self.lose(now, no, lost);
            }
            // A write of ours that ended as unknown was applied.
            Course::Here if is_named && !is_ours => self.reads.require(Due::List),
            _ => {}
        }
    }

    pub(super) fn is_under_way(&self, no: ContenderNo) -> bool {
        let step = self.writes.step.as_ref();
        step.is_some_and(|(step, _)| step.is_about(no))
    }

    /// A list of the prefix, with the record in it. Returns whether it was taken.
    pub(super) fn learn_list(&mut self, now: Instant, view: &View, reading: Reading) -> bool {
        let news = self.known.record.compare(view.record_index(), view.index());
        let newest = self.ours.all().map(|(_, it)| it.index()).max();
        let is_older = news == News::Older || newest.is_some_and(|index| index > view.version());
        let replaces = is_older && self.is_restored(reading);
        if is_older && !replaces {
            if reading.is_confirmed {
                self.reads.failed(now, &mut self.rng);
            }
            self.reads.require(Due::ConfirmedList);
            return false;
        }
        if view.is_filtered() {
            // Nothing follows from what it lacks.
            self.reads.satisfied(Due::ConfirmedList);
            self.fail_incomplete(now);
            return false;
        }
        let lock = view.lock().cloned();
        if replaces {
            self.replace_record(now, reading.moment, lock, view.index(), true);
        } else {
            self.learn_record(now, reading.moment, lock, view.index(), true);
        }
        let due = self.compare_keys(now, view, reading);
        let ours = &self.ours;
        self.known
            .line
            .replace(view, |session| ours.of_session(session.as_str()).is_some());
        if !reading.is_tree {
            self.known.line.listed(reading.sent_at);
            self.known.listed = reading.moment;
        }
        self.reads.satisfied(Due::ConfirmedList);
        self.observe_missing(now, view, reading);
        if self.situation(now).has_company() {
            self.known.line.saw_company(now);
        }
        self.reads.require(due);
        true
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
        // Who sees the record and none of our keys is not blind: they were deleted.
        let shows_ours =
            numbers.iter().any(is_there) || reading.is_confirmed && view.lock().is_some();
        let mut lacks_ours = false;
        for no in numbers {
            let Some(contender) = self.ours.get(no) else {
                continue;
            };
            let Some(session) = contender.session().cloned() else {
                continue;
            };
            if contender.loan.is_gone() || self.is_under_way(no) {
                continue;
            }
            match view.key(&session) {
                Key::Tied(shown) => {
                    if reading.is_confirmed {
                        self.ours.change(no, |it| it.was_proved(reading.sent_at));
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
                Key::Absent if !shows_ours => lacks_ours = true,
                Key::Absent => {
                    let is_leaving = matches!(contender.course, Course::Leaving { .. });
                    let is_over = is_leaving && !contender.is_named;
                    if is_over || reading.is_confirmed {
                        self.key_is_gone(now, no, session);
                    } else {
                        due = Due::ConfirmedList;
                    }
                }
            }
        }
        // It was filtered, or our keys were deleted by hand: nothing is concluded.
        if lacks_ours && reading.is_confirmed {
            let first = self.situation(now).first_waiter();
            self.known.hidden = first.and_then(|group| group.members.first().copied());
            self.lose_what_nobody_shows(now);
        } else if lacks_ours {
            due = Due::ConfirmedList;
        }
        due
    }

    /// Leaving contenders whose keys a list lacks with all others of ours: they were deleted by a
    /// write whose answer was lost, or by hand.
    fn lose_what_nobody_shows(&mut self, now: Instant) {
        if self.known.hidden.is_some() {
            return;
        }
        for no in self.ours.numbers_of(Stand::Leaving) {
            let session = self.ours.get(no).and_then(|it| it.session().cloned());
            if let Some(session) = session.filter(|_| !self.is_under_way(no)) {
                self.key_is_gone(now, no, session);
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
        let is_leaving = self.ours.get(no).map(Contender::stand) == Some(Stand::Leaving);
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
        let shows_ours = self.ours.all().any(|(_, it)| {
            it.session()
                .is_some_and(|it| matches!(view.key(it), Key::Tied(_)))
        });
        let is_as_new = view.record_index() == self.known.record.index();
        let counts = !reading.is_tree && shows_ours && is_as_new && !view.is_filtered();
        let before = self.known.missing.suspects();
        self.known.missing.observe(
            now,
            view,
            |session| ours.of_session(session).is_some(),
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

    /// Takes news of a session.
    pub(super) fn take_loan(&mut self, now: Instant, news: &LoanNews) {
        let no = ContenderNo(news.loan.0);
        let before = self.held_until(no);
        self.ours.change(no, |it| {
            it.loan.learn(&news.shown);
            if it.loan.is_gone() {
                it.key = None;
            }
        });
        let Some(contender) = self.ours.get(no) else {
            return;
        };
        let (is_gone, session) = (contender.loan.is_gone(), contender.session().cloned());
        let failure = contender.loan.failure().cloned();
        self.tell_renewal(now, no, before);
        if let Some(error) = failure {
            if error.is_permanent() && self.is_wanting(no) {
                self.fail_waiting(now, |_| Error::Request(error.clone()));
            }
            self.note(now, Some(error));
        }
        if is_gone {
            if self.is_wanting(no) {
                self.writes.respawn.begin(now, &mut self.rng);
            }
            match session {
                Some(session) => {
                    let lost = Lost::SessionGone {
                        session,
                        key_alone: false,
                        on: Subject::default(),
                    };
                    self.lose(now, no, lost);
                }
                None => _ = self.ours.change(no, Contender::leave),
            }
        }
    }

    fn is_wanting(&self, no: ContenderNo) -> bool {
        let stand = self.ours.get(no).map(Contender::stand);
        matches!(stand, Some(Stand::Entering | Stand::Waiting))
    }

    /// When the belief of this contender ends, and for which acquisition it holds.
    pub(super) fn held_until(&self, no: ContenderNo) -> Option<(CommandId, Instant)> {
        let contender = self.ours.get(no)?;
        Some((contender.held_for()?, contender.believed_until()?))
    }

    /// Hands its wishes to its own pool, and takes the pool's news.
    pub(super) fn exchange(&mut self, now: Instant) -> bool {
        let Some(mut lone) = self.lone.take() else {
            return false;
        };
        while let Some(wish) = self.ours.poll_wish() {
            lone.handle_wish(now, &wish);
        }
        let mut has_news = false;
        while let Some(news) = lone.poll_news() {
            has_news = true;
            self.take_loan(now, &news);
        }
        self.lone = Some(lone);
        has_news
    }

    /// Whether the process has too many holders for a poll of each.
    pub(super) fn lacks_polls(&self) -> bool {
        self.readers == Readers::Shared
    }

    /// What is checked for it together with others, while it only holds.
    pub(super) fn shared_check(&self) -> Option<Check> {
        let only_holds = self.callers.queue().is_empty()
            && self.ours.count(Stand::Holding) == self.ours.len()
            && !self.is_idle();
        if self.lone.is_some() || !only_holds || self.ours.len() > Check::MOST_KEYS {
            return None;
        }
        let keys = self.ours.those(Stand::Holding).filter_map(|(_, it)| {
            let session = it.session()?;
            let key = self.settings.prefix.contender_key(session);
            Some((key, session.clone()))
        });
        Some(Check {
            stance: Stance::Holds,
            record: self.settings.prefix.record_key(),
            index: self.known.record.index(),
            keys: keys.collect(),
            seen_at: self.known.record.seen_at(),
        })
    }

    /// Takes the result of such a check.
    pub(super) fn take_check(&mut self, news: CheckNews) {
        match news {
            CheckNews::Reads(readers) => {
                self.readers = readers;
                if self.lacks_polls() && matches!(self.reads.polled(), Some(Target::Own(_))) {
                    self.reads.drop_poll();
                    self.requests
                        .abort(|from| matches!(from, From::Poll { .. }));
                }
            }
            CheckNews::WaitingReads(_) | CheckNews::AsBefore { .. } => {}
            CheckNews::Changed(index) => {
                if self.known.record.index() == index {
                    self.reads.require(Due::List);
                }
            }
        }
    }
}
