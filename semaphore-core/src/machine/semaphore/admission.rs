//! Decides the next write of the record. Only this module gives slots and takes them back.
//!
//! The rules, each with its promise:
//! - A missing record is created without holders. So a claim always replaces a record, and that
//!   record's `ModifyIndex` is in the grant's fencing token (S5). A client may have thousands of
//!   semaphores, so it creates each record together with those whom it may admit. Their tokens come
//!   from the index before the one in the answer.
//! - Holders without a live session are pruned if three things are true. The view shows a key of
//!   ours, the server does not say that it left keys out, and the holder's key is not merely hidden
//!   (S3). And they are not pruned before their belief must have ended (S1): see
//!   [`vanished`](crate::machine::semaphore::vanished).
//! - Our leaving contenders are removed. So is one whose admission may still be applied: a write of
//!   the record from the same index prevents that (L2).
//! - The first of our queue is admitted when it is its turn: as many of the live waiters may claim
//!   as there are free slots, in the order of their contender keys. When its patience is over it
//!   may claim out of turn, so that no stuck stranger ahead blocks it forever (L1). Those that it
//!   was waiting for are then overtaken, and not waited for again for a while.
//! - A newcomer enters and is admitted in one step if a slot is free, besides one for each of those
//!   who wait.
//! - A contender that has entered since the whole prefix was read does not know its place: somebody
//!   may be ahead.
//! - Several permits are admitted in one write, or none is.
//! - One write admits all acquisitions whose turn it is, in the order of our queue, as far as they
//!   fit into a transaction. The record is one key, which is written once in each round of
//!   requests, however many wait. Each acquisition has its own fencing token.
//! - If the record has another limit, nothing is written except that somebody leaves, unless we
//!   adopt that limit. If nobody holds or waits ahead, our limit may replace it, if that was
//!   requested; the same write then admits.
//! - A write always changes the value, at least its white space. Otherwise the record's
//!   `ModifyIndex` would stay, and other writes from that index would remain possible.
//!
//! Sources: Consul's guide to semaphores has the record, its check-and-set, and the pruning of
//! contenders whose key has no session. The queue by `CreateIndex`, patience and S5 are ours: in
//! the guide whichever client writes first is next, and nobody's turn is certain.

use std::collections::BTreeSet;

use crate::defect::{Defect, is_on};
use crate::error::Refusal;
use crate::id::{Index, SessionId};
use crate::machine::semaphore::contender::Presence;
use crate::machine::semaphore::settings::OtherLimit;
use crate::record::Record;
use crate::view::{Contender, Key, Source, View};

/// Identifies one contender of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) struct ContenderNo(pub(in crate::machine) u64);

/// What the first write of a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum FirstWrite {
    /// It creates it without holders.
    Creates,
    /// It also admits. Its answer must have its index, or there would be no token.
    Admits,
}

/// The input of the decision.
#[derive(Debug)]
pub(in crate::machine) struct Situation<'a> {
    pub(in crate::machine) view: &'a View,
    /// The limit of a new record.
    pub(in crate::machine) limit: u32,
    /// What to do with a record of another limit.
    pub(in crate::machine) other_limit: OtherLimit,
    /// The permits wanted by each of the first callers in our queue.
    pub(in crate::machine) wanted: &'a [u32],
    /// How many operations a transaction has room for beside the record.
    pub(in crate::machine) room: usize,
    pub(in crate::machine) first_write: FirstWrite,
    /// Our contenders that may be admitted, in the order of the queue.
    pub(in crate::machine) admissible: &'a [(ContenderNo, SessionId)],
    /// Our contenders that could enter and be admitted in one step.
    pub(in crate::machine) newcomers: &'a [(ContenderNo, SessionId)],
    /// Our contenders that leave and may be in the record.
    pub(in crate::machine) leaving: &'a [(ContenderNo, SessionId, Presence)],
    /// Whether the first of our queue has waited long enough behind others.
    pub(in crate::machine) patience_is_over: bool,
    /// Whether the view shows a contender key of ours.
    pub(in crate::machine) sees_ours: bool,
    /// Those who were waited for without success.
    pub(in crate::machine) overtaken: &'a BTreeSet<SessionId>,
    /// Holders whose contender key has gone and who may be pruned.
    pub(in crate::machine) dead: &'a BTreeSet<SessionId>,
    /// Those who may certainly not be pruned yet.
    pub(in crate::machine) withheld: &'a BTreeSet<SessionId>,
    /// Those without a key in a list.
    pub(in crate::machine) suspected: &'a BTreeSet<SessionId>,
}

/// A write of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) struct Write {
    pub(in crate::machine) record: Record,
    /// The index for its check-and-set.
    pub(in crate::machine) base: Index,
    /// The contenders of all admitted acquisitions, in the order of our queue.
    pub(in crate::machine) admit: Vec<ContenderNo>,
    pub(in crate::machine) withdraw: Vec<ContenderNo>,
}

/// The state of the first in our queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Turn {
    /// Nobody waits, or too few slots are free.
    NotYet,
    /// Slots are free, but others are ahead.
    BehindOthers,
    /// It may claim.
    Now,
}

/// The place of one of ours in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Place {
    /// All who are ahead are shown.
    Known,
    /// Somebody may be ahead who is not shown.
    Unknown,
}

/// What is left for a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) struct Room {
    limit: u32,
    free: usize,
    /// The number of waiters who come first.
    ahead: usize,
    /// The slots of holders who seem dead but may not be pruned yet.
    withheld: usize,
    whose: Whose,
}

/// Whose limit counts for free slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// That of others, who hold or come first, until ours replaces it.
    Others,
}

impl Room {
    /// Why this number of slots is not free, besides those that waiters ahead will take. `None` if
    /// they are free.
    pub(in crate::machine) fn refusal(&self, permits: u32) -> Option<Refusal> {
        let wanted = permits as usize;
        if self.ahead + wanted <= self.free && self.whose == Whose::Ours {
            return None;
        }
        let count = |of| u32::try_from(of).unwrap_or(u32::MAX);
        let free = count(self.free);
        Some(if self.whose == Whose::Others && self.withheld > 0 {
            let withheld = count(self.withheld);
            Refusal::LockDelay { withheld }
        } else if wanted <= self.free {
            let waiters = count(self.ahead);
            Refusal::OthersWait { waiters, free }
        } else if wanted <= self.free + self.withheld {
            let withheld = count(self.withheld);
            Refusal::LockDelay { withheld }
        } else {
            let limit = self.limit;
            Refusal::LimitReached { free, limit }
        })
    }
}

impl Situation<'_> {
    /// The next write, if one is due, and the state of the first in our queue.
    pub(in crate::machine) fn plan(&self) -> (Option<Write>, Turn) {
        let Some(lock) = self.view.lock() else {
            return self.create();
        };
        let Ok(found) = &lock.record else {
            let replace = self.create().0.map(|write| Write {
                base: lock.modify_index,
                ..write
            });
            let write = replace.filter(|_| is_on(Defect::GarbageOverwritten));
            return (write, Turn::NotYet);
        };
        let mut record = found.clone();
        let withdraw = self.withdraw(&mut record);
        let pruned = self.prune(&mut record);
        self.resize(&mut record);
        let room = self.room.saturating_sub(pruned);
        let (admit, turn) = if self.whose(&record) == Whose::Others {
            (Vec::new(), self.turn_of_others(&record))
        } else {
            self.admit(&mut record, room, withdraw.len())
        };
        if record == *found && !is_on(Defect::FenceWithoutChange) {
            record.respell();
        }
        let write = Write {
            record,
            base: lock.modify_index,
            admit,
            withdraw,
        };
        // So many are pruned that the first in our queue is admitted by the next write.
        let makes_room = pruned > 0 && room < self.steps_of_first() && !self.wanted.is_empty();
        let is_due = makes_room || !(write.admit.is_empty() && write.withdraw.is_empty());
        (is_due.then_some(write), turn)
    }

    /// What is left for a newcomer. `None` if there is no record, and nobody has anything.
    pub(in crate::machine) fn room(&self) -> Option<Room> {
        let found = self.view.record()?;
        let mut record = found.clone();
        record.remove(self.admissible_sessions());
        self.withdraw(&mut record);
        // The claiming contender prunes the dead. A newcomer has no key in the view yet.
        let mut withheld = 0;
        if !self.view.is_filtered() && self.view.keyless().next().is_some() {
            let is_missing = |holder: &&str| !self.view.is_alive(holder);
            record.retain(|holder| self.view.is_alive(holder) || self.is_withheld(holder));
            withheld = record.holders().filter(is_missing).count();
        }
        self.resize(&mut record);
        Some(Room {
            limit: record.limit(),
            free: free(&record),
            ahead: self.ahead().count(),
            withheld,
            whose: self.whose(&record),
        })
    }

    /// Replaces another limit in a record without holders by ours, if that was requested and nobody
    /// waits ahead: somebody ahead may want the same, or claim at once.
    fn resize(&self, record: &mut Record) {
        let is_first = || self.patience_is_over || self.ahead().next().is_none();
        let is_asked_for = self.other_limit.is_replaced_if_idle() && record.limit() != self.limit;
        if is_asked_for && record.holders().len() == 0 && is_first() {
            record.set_limit(self.limit);
        }
    }

    /// Whether ours is to replace the record's limit, but can't yet.
    fn whose(&self, record: &Record) -> Whose {
        if self.other_limit == OtherLimit::ReplacedIfIdle && record.limit() != self.limit {
            Whose::Others
        } else {
            Whose::Ours
        }
    }

    /// The state of the first in our queue, if others who came before may claim while nobody holds.
    fn turn_of_others(&self, record: &Record) -> Turn {
        if self.wanted.is_empty() || self.admissible.is_empty() || record.holders().len() > 0 {
            Turn::NotYet
        } else {
            Turn::BehindOthers
        }
    }

    /// The first write of the record.
    fn create(&self) -> (Option<Write>, Turn) {
        let mut record = Record::new(self.limit);
        let withdraw = self.withdraw(&mut record);
        let (admit, turn) = if self.first_write == FirstWrite::Admits {
            self.admit(&mut record, self.room, withdraw.len())
        } else {
            (Vec::new(), Turn::NotYet)
        };
        let waits = !self.wanted.is_empty() && !self.admissible.is_empty();
        if !waits && admit.is_empty() && withdraw.is_empty() {
            return (None, Turn::NotYet);
        }
        // If many come at once, the first ones create it.
        let is_late = self.ahead().count() >= CREATORS && !self.patience_is_over;
        if is_late && withdraw.is_empty() {
            return (None, Turn::BehindOthers);
        }
        let write = Write {
            record,
            base: Index::ZERO,
            admit,
            withdraw,
        };
        let turn = if write.admit.is_empty() {
            Turn::NotYet
        } else {
            turn
        };
        (Some(write), turn)
    }

    fn withdraw(&self, record: &mut Record) -> Vec<ContenderNo> {
        let base = self.view.record_index();
        let withdrawn = self.leaving.iter().filter(|(_, session, presence)| {
            record.holds(session.as_str()) || *presence == Presence::Maybe(base)
        });
        let withdrawn = withdrawn.map(|(no, ..)| *no).collect();
        let leaving = self.leaving_sessions();
        record.remove(leaving);
        withdrawn
    }

    fn leaving_sessions(&self) -> BTreeSet<&str> {
        let sessions = self.leaving.iter().map(|(_, session, _)| session.as_str());
        sessions.collect()
    }

    /// Holders that seem dead. They stay until it is certain that they may be pruned; the next
    /// write then prunes them.
    pub(in crate::machine) fn suspects(&self) -> BTreeSet<SessionId> {
        if !self.may_prune() || self.view.source() != Source::List {
            return BTreeSet::new();
        }
        self.missing()
    }

    /// Holders without a key in the view who are not known to be dead.
    fn missing(&self) -> BTreeSet<SessionId> {
        let leaving = self.leaving_sessions();
        self.view
            .keyless()
            .filter(|holder| !self.is_dead(holder))
            .filter_map(|holder| SessionId::new(holder).ok())
            .filter(|session| !leaving.contains(session.as_str()))
            .collect()
    }

    /// Removes the dead: as many as one write can check. Returns how many.
    fn prune(&self, record: &mut Record) -> usize {
        let is_incomplete = is_on(Defect::PruneWithoutOwnKey) && !self.sees_ours
            || is_on(Defect::PruneFiltered) && self.view.is_filtered();
        if is_incomplete || is_on(Defect::PruneWithoutInquest) && self.may_prune() {
            record.retain(|holder| self.view.is_alive(holder));
        }
        if !self.may_prune() {
            return 0;
        }
        let dead = self.view.keyless().filter(|holder| self.is_dead(holder));
        let dead: BTreeSet<_> = dead.take(self.room).collect();
        if !dead.is_empty() {
            record.retain(|holder| !dead.contains(holder));
        }
        dead.len()
    }

    /// How many operations the first of our queue takes.
    fn steps_of_first(&self) -> usize {
        2 * self.wanted.first().map_or(0, |wanted| *wanted as usize)
    }

    fn may_prune(&self) -> bool {
        self.sees_ours && !self.view.is_filtered()
    }

    /// Whether somebody seems dead, but only a list can confirm the suspicion.
    pub(in crate::machine) fn needs_list(&self) -> bool {
        self.view.source() == Source::Transaction && !self.missing().is_subset(self.suspected)
    }

    /// Whether a holder that is not alive in the view is dead. A name that is not a session's can't
    /// live.
    fn is_dead(&self, holder: &str) -> bool {
        SessionId::new(holder).map_or(true, |session| self.dead.contains(&session))
    }

    fn is_withheld(&self, holder: &str) -> bool {
        SessionId::new(holder).is_ok_and(|session| self.withheld.contains(&session))
    }

    /// Admits those whose turn it is. Each takes at most two operations of the transaction, and the
    /// keys of those who leave take one each. The first in our queue goes before these.
    fn admit(&self, record: &mut Record, room: usize, leaving: usize) -> (Vec<ContenderNo>, Turn) {
        if room < self.steps_of_first() {
            return (Vec::new(), Turn::NotYet);
        }
        let kept = self.admissible_sessions().into_iter();
        let kept: usize = kept.map(|session| record.slots_of(session)).sum();
        let free = free_beside(record, record.holders().len() - kept);
        let room = room.saturating_sub(leaving).max(self.steps_of_first());
        let (admitted, turn) = self.turns(free, room / 2);
        // A contender of ours with a slot in the record claims that slot: there may be no other
        // free one.
        let has_slot = |session: &SessionId| record.holds(session.as_str());
        let (with_slot, without): (Vec<_>, Vec<_>) = self
            .admissible
            .iter()
            .partition(|(_, session)| has_slot(session));
        let admitted: Vec<_> = with_slot
            .into_iter()
            .chain(without)
            .take(admitted)
            .collect();
        let room = room.saturating_sub(2 * admitted.len());
        let free = free.saturating_sub(admitted.len());
        let newcomers = self.newcomers(admitted.len(), free, room);
        let turn = if newcomers.is_empty() {
            turn
        } else {
            Turn::Now
        };
        let admitted = admitted.into_iter().chain(newcomers);
        let add = |(no, session): &(ContenderNo, SessionId)| {
            record.add(session.as_str());
            *no
        };
        (admitted.map(add).collect(), turn)
    }

    /// How many of our contenders may claim, for the callers in our queue whose turn it is. Each
    /// gets all that it wants or nothing. Also returns the state of the first of them.
    fn turns(&self, free: usize, most: usize) -> (usize, Turn) {
        let mut admitted = 0;
        let mut turn = Turn::NotYet;
        for wanted in self.wanted.iter().map(|wanted| *wanted as usize) {
            let is_first = admitted == 0;
            let wanted = if is_on(Defect::ManyClaimedInParts) {
                wanted.min(free.saturating_sub(admitted)).max(1)
            } else {
                wanted
            };
            let upon = admitted + wanted;
            if upon > free || upon > self.admissible.len() || !is_first && upon > most {
                break;
            }
            let unknown = usize::from(self.place(admitted) == Place::Unknown);
            let ahead = self.ahead_of(admitted).count() + unknown;
            if ahead + upon > free {
                // Only the first may claim out of turn: those who are passed are not waited for
                // afterwards.
                let is_patient = self.patience_is_over || is_on(Defect::OutOfTurn);
                if is_first && is_patient {
                    return (wanted, Turn::Now);
                }
                if is_first {
                    turn = Turn::BehindOthers;
                }
                break;
            }
            (admitted, turn) = (upon, Turn::Now);
        }
        (admitted, turn)
    }

    /// Newcomers that find a slot which none of those who wait will need. They do not queue, and come after those of ours that did.
    fn newcomers(&self, admitted: usize, free: usize, room: usize) -> &[(ContenderNo, SessionId)] {
        let wanted = self.wanted.iter().take_while(|wanted| **wanted == 1);
        let queued = self.admissible.len();
        let most = if admitted == queued {
            wanted.count()
        } else {
            0
        };
        let left = free.saturating_sub(self.ahead_of(queued).count());
        let most = most.saturating_sub(admitted).min(left).min(room);
        let newcomers = self.newcomers.len();
        self.newcomers
            .get(..newcomers.min(most))
            .unwrap_or_default()
    }

    /// If an earlier hold with a caller's session left a slot in the record, the session waits for
    /// that slot.
    fn admissible_sessions(&self) -> BTreeSet<&str> {
        let admissible = self.admissible.iter().map(|(_, session)| session.as_str());
        admissible.collect()
    }

    /// The waiters ahead of the first in our queue that have to be waited for.
    pub(in crate::machine) fn ahead(&self) -> impl Iterator<Item = &SessionId> {
        self.ahead_of(0)
    }

    /// Whether the place of one of our contenders is known.
    pub(in crate::machine) fn place(&self, rank: usize) -> Place {
        let is_known = |(_, us): &(ContenderNo, SessionId)| match self.view.key(us) {
            Key::Tied(own) => self.view.shows_all_before(own),
            _ => true,
        };
        if self.admissible.get(rank).is_none_or(is_known) {
            Place::Known
        } else {
            Place::Unknown
        }
    }

    /// The waiters ahead of one of our contenders that have to be waited for, without our own.
    fn ahead_of(&self, rank: usize) -> impl Iterator<Item = &SessionId> {
        let place_of = |(_, us): &(ContenderNo, SessionId)| match self.view.key(us) {
            // It need not be a waiter: an earlier hold may have left it in the record.
            Key::Tied(first) => Some(place(first)),
            _ => None,
        };
        let first = self.admissible.get(rank).and_then(place_of);
        let before = self.admissible.get(..rank).unwrap_or_default();
        let leaving = self.leaving_sessions();
        self.view
            .waiters()
            .take_while(move |waiter| first.is_none_or(|first| place(waiter) < first))
            .map(|waiter| &waiter.session)
            .filter(|session| !self.overtaken.contains(session))
            .filter(move |session| !leaving.contains(session.as_str()))
            .filter(|session| !before.iter().any(|(_, ours)| ours == *session))
    }
}

/// How many of those who find no record may create it at once.
pub(in crate::machine) const CREATORS: usize = 4;

fn place(contender: &Contender) -> (Index, &SessionId) {
    (contender.create_index, &contender.session)
}

fn free(record: &Record) -> usize {
    free_beside(record, record.holders().len())
}

/// How many slots are free if this number is held.
fn free_beside(record: &Record, held: usize) -> usize {
    let limit = record.limit() as usize + usize::from(is_on(Defect::LimitExceeded));
    limit.saturating_sub(held)
}

#[cfg(test)]
mod tests;
