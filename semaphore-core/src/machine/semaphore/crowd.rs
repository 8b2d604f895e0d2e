//! Whom a participant looks at in a crowd.
//!
//! Where few contend, each watches the whole prefix and learns of every change at once. Where many do,
//! that would cost each handoff a read of the prefix by each of them. So there
//! - whoever waits behind others watches only the key of the next ahead, which a claim touches;
//! - whoever is the first, or holds, watches only the record;
//! - the prefix is read when that is not enough: when the next ahead is gone, when a free slot stays
//!   unused for the time of our patience, and now and then, for holders may die.
//!
//! ```text
//!   behind ──key touched──▶ first ──a slot is free──▶ claims, touching its own key
//!     │  ▲                    ▲
//!     │  └─time is over: look at the record
//!     └────key gone: read the prefix
//! ```
//! A claim of a foreign client touches no key. Whoever waits behind one finds out when the time of its poll is
//! over: that is [`LOOK_UP`], and somewhat more for each who waits ahead.
//!
//! The herd is why: with a watch of the whole prefix each, one release wakes all who wait, and each of them reads all
//! keys. To watch the one ahead alone is a known recipe for locks of Apache `ZooKeeper`.

use core::time::Duration;

use crate::api::ReadKey;
use crate::error::{Error, RequestError};
use crate::http::Response;
use crate::id::{Index, SessionId};
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::CREATORS;
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::knowledge::{Observed, RecordLook};
use crate::machine::semaphore::roster::Group;
use crate::time::Instant;
use crate::view::{Claimed, Contender as Shown, ContenderFlags, Lock, View};

/// How long whoever waits behind one other looks at its key before it looks at the record.
const LOOK_UP: Duration = Duration::from_secs(2);

/// How much longer for each other who waits ahead, and at most.
const LOOK_UP_PER_RANK: Duration = Duration::from_millis(100);
const LOOK_UP_AT_MOST: Duration = Duration::from_secs(15);

/// How old what is known of the contenders may be for whoever is the first, and how much older for each
/// who waits ahead.
const READ_PER_RANK: Duration = Duration::from_secs(5);

impl Participant {
    /// What polls are for at the moment.
    pub(super) fn focus(&self, now: Instant) -> Focus {
        if !self.is_in_crowd() {
            return Focus::Prefix;
        }
        match self.knowledge.record_look() {
            RecordLook::Not => {}
            RecordLook::Now => return Focus::Record { index: Index::ZERO },
            RecordLook::After(index) => return Focus::Record { index },
        }
        let Some(observed) = self.knowledge.current() else {
            return Focus::Prefix;
        };
        let index = observed.view.lock_index();
        let has_record = observed.view.record().is_some();
        let holds = self.roster.has_any(Group::Held);
        match self.next_ahead(now, observed) {
            Some((ahead, rank))
                if !holds
                    && !self.knowledge.is_next_stuck()
                    && !self.roster.has_any(Group::Withdrawing)
                    && (has_record || rank as usize >= CREATORS) =>
            {
                Focus::Ahead {
                    session: ahead.session.clone(),
                    index: ahead.modify_index,
                    wait: LOOK_UP_AT_MOST.min(LOOK_UP + LOOK_UP_PER_RANK * rank),
                }
            }
            _ if has_record => Focus::Record { index },
            _ => Focus::Prefix,
        }
    }

    /// Whether so many contend that not everybody watches the whole prefix.
    pub(super) fn is_in_crowd(&self) -> bool {
        self.knowledge.is_crowd(self.roster.len(), &self.settings)
    }

    /// Who waits next ahead of the first of ours, and how many do in all.
    pub(super) fn next_ahead<'v>(
        &self,
        now: Instant,
        observed: &'v Observed,
    ) -> Option<(&'v Shown, u32)> {
        let overtaken = self.ledger.overtaken(now);
        let first = self.roster.first_in_queue()?;
        observed.next_ahead(first, |session| overtaken.contains(session))
    }

    /// In a crowd the record has changed since a hold began in its first moments: it is looked at before it
    /// is written.
    pub(super) fn look_before_write(&mut self) {
        let is_in_crowd = self.is_in_crowd();
        if let Some(observed) = self.knowledge.newest_mut()
            && is_in_crowd
            && !self.watch.is_polling()
        {
            observed.outdate();
            self.knowledge.set_record_look(RecordLook::Now);
        }
    }

    /// Takes the answer to a poll of one key.
    pub(super) fn handle_key(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        let is_early = self.watch.is_early(now);
        match answer.and_then(ReadKey::parse_at) {
            Ok((_, entry)) => {
                self.note(now, None);
                let is_news = match self.watch.polled().clone() {
                    Focus::Ahead { session, index, .. } => {
                        tracing::debug!(name: "crowd", %session, "looked at the next ahead alone");
                        let shown = entry
                            .filter(|entry| entry.session() == Some(session.as_str()))
                            .map(|entry| Shown::new(session.clone(), &entry));
                        self.handle_ahead(now, &session, index, shown)
                    }
                    Focus::Record { index } => {
                        self.knowledge.set_record_look(RecordLook::Not);
                        let lock = entry.map(|entry| Lock::new(&entry));
                        let is_news = self.handle_record(now, index, lock);
                        self.read_in_time(now);
                        is_news
                    }
                    Focus::Prefix => true,
                };
                if is_news || !is_early {
                    self.watch.key_answered(now);
                } else {
                    // An agent ends all polls when a snapshot is restored.
                    self.watch.refresh(now);
                    self.watch.failed(now, &mut self.rng);
                }
            }
            Err(error) => {
                self.watch.failed(now, &mut self.rng);
                match self.watch.polled() {
                    _ if !error.is_permanent() => {}
                    // Whoever leaves needs the record alone.
                    Focus::Ahead { .. } => {
                        self.fail_waiting(now, |_| Error::Request(error.clone()));
                    }
                    Focus::Record { .. } | Focus::Prefix => self.refuse(now, &error),
                }
                self.end_unreadable(now, &error);
                self.note(now, Some(error));
            }
        }
    }

    /// A holder that dies changes nothing of the record. So the prefix is read now and then by those who
    /// wait, the less often the more are ahead.
    fn read_in_time(&mut self, now: Instant) {
        let Some(observed) = self.knowledge.newest() else {
            return;
        };
        let rank = self.next_ahead(now, observed).map_or(0, |(_, rank)| rank);
        let due = observed.read_at + READ_PER_RANK * (rank + 1);
        if due <= now && !self.callers.queue().is_empty() {
            self.watch.refresh(now);
        }
    }

    /// What became of the next ahead, as its key shows.
    fn handle_ahead(
        &mut self,
        now: Instant,
        session: &SessionId,
        index: Index,
        shown: Option<Shown>,
    ) -> bool {
        let Some(shown) = shown else {
            // It has gone, and who is next ahead now only the prefix tells.
            self.watch.refresh(now);
            return true;
        };
        let is_changed = shown.modify_index > index;
        self.knowledge.set_next_stuck(!is_changed);
        if self.knowledge.newest().is_none() {
            return true;
        }
        let claim = ContenderFlags::decode(shown.flags)
            .filter(|_| is_changed)
            .map_or(Claimed::None, |flags| flags.claim);
        self.knowledge.set_record_look(match claim {
            // The claim has changed the record at the same index, and left nothing to claim.
            Claimed::Last => RecordLook::After(shown.modify_index),
            Claimed::One | Claimed::None => RecordLook::Now,
        });
        if let Some(observed) = self.knowledge.newest_mut() {
            if claim != Claimed::None {
                observed.view.pass(session);
                observed.outdate();
            } else if is_changed {
                observed.view.lock_key(shown);
            }
        }
        is_changed
    }

    /// The record as a poll of it alone shows it. Says whether it is another than at this index.
    fn handle_record(&mut self, now: Instant, polled: Index, lock: Option<Lock>) -> bool {
        let moment = self.moment();
        let Some(known) = self.knowledge.view().map(View::lock_index) else {
            return true;
        };
        if let Some(lock) = &lock
            && let Ok(record) = &lock.record
            && lock.modify_index > known
        {
            self.learn_who_is_passed(now, record);
        }
        let Some(observed) = self.knowledge.newest_mut() else {
            return true;
        };
        match lock {
            Some(lock) if lock.modify_index > known => {
                observed.view.set_lock(lock);
                observed.update(now, moment);
                let view = observed.view.clone();
                self.observe_record(now, &view);
                true
            }
            Some(lock) if lock.modify_index == known => {
                observed.is_current_again(now);
                // A write of ours may have changed it since the poll began.
                known > polled
            }
            // A server that lags behind, or a restored snapshot.
            _ => {
                self.watch.refresh(now);
                true
            }
        }
    }
}
