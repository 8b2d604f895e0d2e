//! Answers to reads, polls and proofs, and whom each of them tells something.

use super::Participant;
use super::contender::{ContenderNo, Stand};
use super::learn::Reading;
use super::reads::{Due, Read, Target};
use super::record::{News, Told};
use crate::api::{Entry, ListKeys, ReadKey};
use crate::error::{Error, Lost, RequestError};
use crate::http::Response;
use crate::id::{Index, SessionId};
use crate::machine::process::failed::Failed;
use crate::machine::process::moment::Moment;
use crate::machine::process::tenancy::loan::{Seen, SeenRecord};
use crate::subject::Subject;
use crate::time::Instant;
use crate::view::{Contender as Shown, ContenderFlags, Lock, View};

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
            self.note(now, None);
        }
        match shown {
            Ok(Shows::Record((index, entry))) => {
                self.reads.succeeded();
                self.take_record(now, moment, entry.as_ref(), index);
            }
            Ok(Shows::List(view)) => {
                let reading = Reading {
                    moment,
                    sent_at,
                    is_confirmed: read == (Read::List { is_confirmed: true }),
                    is_tree: false,
                };
                if self.learn_list(now, &view, reading) {
                    self.reads.succeeded();
                }
            }
            Err(error) => {
                self.reads.failed(now, &mut self.rng);
                self.read_failed(now, Failed { sent_at, error });
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
        let told = Told {
            moment,
            lock,
            as_of,
            is_ours: false,
        };
        let news = self.learn_record(now, told);
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
                let news = self.take_record(now, moment, entry.as_ref(), index);
                (news != News::Older).then_some(news == News::Newer || known > from)
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
                self.learn_list(now, &view, reading).then_some(moved)
            }),
            Target::Ahead(session) => answer.and_then(ReadKey::parse_at).map(|(index, entry)| {
                (index >= from).then(|| self.saw_ahead(session, entry.as_ref()))
            }),
            Target::Own(session) => answer.and_then(ReadKey::parse_at).map(|(index, entry)| {
                let entry = entry.filter(|_| index >= from);
                self.saw_own(session, entry.as_ref())
            }),
        };
        match moved {
            Ok(None) => {
                // It is older than what we know, or lacks a key of ours: the agent lags, a snapshot
                // was restored, or we may not read it any more.
                self.note(now, None);
                self.reads.require(Due::ConfirmedList);
                self.reads.poll_failed(now, &mut self.rng);
            }
            Ok(Some(has_moved)) => {
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
                self.read_failed(now, Failed { sent_at, error });
            }
        }
    }

    /// However a poll of a waiter ended, it lists if the newest list is old: a death does not change
    /// the record. Otherwise, if nothing has changed, the record is read.
    fn list_in_time(&mut self, now: Instant, has_moved: bool, target: &Target) {
        let situation = self.situation(now);
        let Some(first) = situation.first_waiter() else {
            return;
        };
        let rank = self.known.line.rank(first.created);
        // Where the line moves nobody need be looked for, and a list would show who was passed again.
        let is_its_turn = rank + first.size <= situation.free();
        let is_moving = has_moved && (is_its_turn || matches!(target, Target::Ahead(_)));
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        let age = super::rules::POLL.saturating_mul(rank.saturating_add(1));
        let is_old = self.known.line.listed_at().is_none_or(|at| at + age <= now);
        if is_old && !is_moving {
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

    /// The key of a holder of ours, by its poll. Whether it has changed; `None` if it is not there, or
    /// the answer is older than what is known.
    fn saw_own(&mut self, session: &SessionId, entry: Option<&Entry<'_>>) -> Option<bool> {
        let no = self.ours.of_session(session.as_str());
        let no = no.filter(|no| !self.is_under_way(*no));
        let holder = no.and_then(|no| self.ours.get(no));
        let Some(holder) = holder.filter(|it| it.stand() == Stand::Holding) else {
            // A write of ours has ended the hold.
            return Some(true);
        };
        let has_changed = entry?.modify_index() != holder.index();
        if has_changed {
            self.reads.require(Due::List);
        }
        Some(has_changed)
    }

    /// Takes what a proof has shown of the record and of the key of one of ours.
    pub(super) fn take_seen(&mut self, now: Instant, no: ContenderNo, seen: &Seen) {
        if let SeenRecord::There(lock) = &seen.record {
            let moment = self.moment();
            let index = lock.modify_index;
            let is_later = self.known.record.seen_at() < seen.sent_at;
            let told = Told {
                moment,
                lock: Some(lock.clone()),
                as_of: index,
                is_ours: false,
            };
            let news = self.learn_record(now, told);
            // A snapshot may have been restored.
            if news == News::Older && is_later {
                self.reads.require(Due::ConfirmedList);
            }
        }
        let is_missing = matches!(seen.record, SeenRecord::Missing);
        if is_missing && self.known.record.get().is_some() {
            self.reads.require(Due::List);
        }
        let Some(contender) = self.ours.get(no) else {
            return;
        };
        let holds = contender.stand() == Stand::Holding;
        match &seen.key {
            Some(shown) => {
                let is_newer = contender
                    .key
                    .is_some_and(|it| it.index < shown.modify_index);
                if is_newer && !self.is_under_way(no) {
                    self.saw_key(now, no, shown);
                }
            }
            // It was deleted, or may not be read any more.
            None if holds => self.reads.require(Due::ConfirmedList),
            None => {}
        }
    }

    fn read_failed(&mut self, now: Instant, failed: Failed) {
        let Failed { sent_at, error } = failed;
        if error.is_permanent() {
            self.fail_waiting(now, sent_at, |_| Error::Request(error.clone()));
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
        self.writes.held_up += u32::from(self.ours.any_leaves());
        self.leaving_failed(now, &error);
        self.note(now, Some(error));
    }
}
