//! The callers' side: who asks, gives back or loses, and whose wait fails.

use super::capacity::Capacity;
use super::contender::{Contender, ContenderNo, Course, Stand};
use super::reads::Due;
use super::record::Content;
use super::step::{Act, Exit, Step};
use super::{Participant, Slots};
use crate::api::Txn;
use crate::defect::{Defect, is_on};
use crate::error::{Error, Lost, Refusal, RequestError};
use crate::id::CommandId;
use crate::input::InvalidInput;
use crate::machine::callers::{Caller, Patience, Ticket};
use crate::machine::process::moment::Moment;
use crate::machine::process::tenancy::loan::Rest;
use crate::machine::process::tenancy::past::Past;
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;

impl Participant {
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        permits: u32,
        patience: Patience,
    ) -> Result<CommandId, Error> {
        let limit = self.settings.limit;
        if permits == 0 {
            return Err(InvalidInput::PermitsZero.into());
        }
        if permits > limit && !self.settings.other_limit.is_adopted() {
            let wanted = permits;
            return Err(InvalidInput::PermitsOverLimit { wanted, limit }.into());
        }
        let max = self.most_permits();
        if permits > max {
            let wanted = permits;
            return Err(InvalidInput::PermitsOverTransaction { wanted, max }.into());
        }
        self.callers.ensure_open()?;
        let acquire = CommandId(self.requests.number());
        let is_behind = patience == Patience::None && self.callers.queue().has_waiters();
        if is_behind {
            self.callers.not_available(acquire, Refusal::OthersHere);
        } else {
            self.callers.enter(Ticket {
                id: acquire,
                permits,
                since: now,
                patience,
            });
        }
        self.writes.asked_at = now + super::JUST_AFTER;
        self.settle(now);
        Ok(acquire)
    }

    /// A caller gives up, at any point.
    pub(super) fn give_up(&mut self, now: Instant, acquire: CommandId) {
        self.callers.give_up(now, acquire);
        if self.callers.hold(acquire).is_some() {
            self.give_back(now, acquire, Caller::Gone);
        }
    }

    pub(super) fn take_release(&mut self, now: Instant, acquire: CommandId) {
        match self.callers.hold(acquire).map(|it| it.lost.clone()) {
            None => self.callers.done(acquire, Ok(())),
            Some(None) => self.give_back(now, acquire, Caller::Released),
            // There is nothing to wait for: the cleanup of a loss goes on behind.
            Some(Some(lost)) => {
                self.give_back(now, acquire, Caller::Gone);
                self.callers.done(acquire, Err(Error::Lost(lost)));
            }
        }
    }

    /// A hold ends. Its slots are idle then, and the rules decide whether they are handed over.
    fn give_back(&mut self, now: Instant, acquire: CommandId, caller: Caller) {
        let Some(hold) = self.callers.give_back(now, acquire, caller) else {
            return;
        };
        let is_lost = hold.lost.is_some();
        for no in hold.of.contenders.clone() {
            self.ours.change(no, |it| {
                if it.held_for() == Some(acquire) {
                    it.is_given_back();
                    it.loan.let_go();
                    it.owes = Some(acquire);
                }
                if is_lost {
                    it.leave();
                }
            });
        }
        self.tell_if_done(acquire);
    }

    /// A slot was handed over, or nothing of it is left.
    pub(super) fn given_back(&mut self, no: ContenderNo) {
        let owes = self.ours.change(no, |it| it.owes.take()).flatten();
        let Some(acquire) = owes else {
            return;
        };
        if let Some(hold) = self.callers.hold_mut(acquire) {
            hold.of.owed.retain(|it| *it != no);
        }
        self.tell_if_done(acquire);
    }

    /// Tells the caller of a hold that nothing of it is left.
    fn tell_if_done(&mut self, acquire: CommandId) {
        let is_owed = |no: &ContenderNo| {
            let contender = self.ours.get(*no);
            contender.is_some_and(|it| it.owes == Some(acquire))
        };
        let Some(hold) = self.callers.hold(acquire) else {
            return;
        };
        if hold.caller == Caller::Present || hold.of.owed.iter().any(is_owed) {
            return;
        }
        let is_awaited = hold.caller == Caller::Released;
        self.callers.forget(acquire);
        if is_awaited {
            self.callers.done(acquire, Ok(()));
        }
    }

    /// It takes longer: the caller is told why, and the rest goes on behind.
    fn tell_late(&mut self, acquire: CommandId, error: Error) {
        let is_released =
            |hold: &crate::machine::callers::Holding<Slots>| hold.caller == Caller::Released;
        if self.callers.hold(acquire).is_some_and(is_released) {
            self.callers.forget(acquire);
            self.callers.done(acquire, Err(error));
        }
    }

    /// The belief ends, or a waiter can't go on (rule 12). A group's caller loses all its slots.
    pub(super) fn lose(&mut self, now: Instant, no: ContenderNo, reason: Lost) {
        let Some(contender) = self.ours.get(no) else {
            return;
        };
        let Some(acquire) = contender.held_for() else {
            if !contender.stand().leaves() {
                self.ours.change(no, Contender::leave);
            }
            return;
        };
        // Its holder must stop first: others get the slot when it is given back, or when its lock
        // delay is over.
        let is_kept = match reason {
            Lost::Evicted { .. } => true,
            Lost::SessionGone { .. } | Lost::ContenderKeyTaken { .. } => {
                self.settings.lost_early.is_kept() && !is_on(Defect::LostNotKept)
            }
            _ => false,
        };
        let mut contenders = Vec::new();
        if let Some(hold) = self.callers.hold_mut(acquire) {
            if hold.lost.is_some() {
                return;
            }
            contenders.clone_from(&hold.of.contenders);
            hold.lost = Some(reason.clone());
            if hold.caller == Caller::Present {
                self.callers.lost(now, acquire, reason);
            }
        }
        for no in contenders {
            self.ours.change(no, |it| {
                if it.held_for() == Some(acquire) {
                    it.loan.let_go();
                    if !is_kept {
                        it.leave();
                    }
                }
            });
        }
    }

    /// The clock ends beliefs, and tells those who gave back and have no answer.
    pub(super) fn end_beliefs(&mut self, now: Instant) {
        for no in self.ours.ended(now) {
            let Some(contender) = self.ours.get(no) else {
                continue;
            };
            match contender.stand() {
                Stand::Holding => {
                    let acquire = contender.held_for();
                    let hold = acquire.and_then(|it| self.callers.hold(it));
                    if hold.is_some_and(|hold| hold.lost.is_some()) {
                        continue;
                    }
                    if let Some(lost) = contender.loan.lease_expired(now) {
                        self.lose(now, no, lost);
                    }
                }
                Stand::Idle => _ = self.ours.change(no, Contender::leave),
                Stand::Leaving | Stand::Over => {
                    if let Some(acquire) = contender.owes {
                        let error = self.obstacle().map(Error::Request);
                        let lost = contender.loan.lease_expired(now).map(Error::Lost);
                        if let Some(error) = error.or(lost) {
                            self.tell_late(acquire, error);
                        }
                    }
                }
                Stand::Entering | Stand::Waiting => {}
            }
        }
    }

    /// Warns observers of leases that end soon.
    pub(super) fn warn(&mut self, now: Instant) {
        if !self.callers.notices().is_heard() {
            return;
        }
        for no in self.ours.ended(now + self.settings.session.warning()) {
            let held = self.held_until(no);
            if let Some((acquire, until)) = held.filter(|(_, until)| *until > now) {
                self.callers.notices_mut().ends_soon(now, acquire, until);
            }
        }
    }

    /// A release that Consul refuses is told at once. It goes on behind, for twice the TTL: then only
    /// a session that others use too can be there still, and what is left goes with it.
    pub(super) fn leaving_failed(&mut self, now: Instant, error: &RequestError) {
        if !error.is_refusal() {
            return;
        }
        let leaving: Vec<_> = self.ours.leaving().map(|(no, _)| no).collect();
        for no in leaving {
            if let Some(acquire) = self.ours.get(no).and_then(|it| it.owes) {
                self.tell_late(acquire, Error::Request(error.at_face_value().clone()));
            }
            let most = self.settings.session.cleanup_time();
            let is_over = self.ours.change(no, |it| it.is_refused_for(most, now));
            if is_on(Defect::ReleaseGivenUp) || is_over == Some(true) {
                self.leave_behind(no);
            }
        }
    }

    /// A key that may not be deleted goes with its session. (A name can only be removed by a write of
    /// the record, which is repeated.)
    pub(super) fn leave_out(&mut self, step: &Step) {
        for part in &step.parts {
            let is_left = matches!(
                part.act,
                Act::Exit(Exit::Leave | Exit::Park { is_named: false })
            );
            if is_left && step.record.is_none() {
                self.leave_behind(part.no);
            }
        }
    }

    /// What is left of it goes with its session. Until that has ended, a claim may still come.
    pub(super) fn leave_behind(&mut self, no: ContenderNo) {
        self.given_back(no);
        if self.ours.get(no).is_some_and(|it| it.loan.is_gone()) {
            self.ours
                .change(no, |it| it.loan.give_back(Past::Nothing, Rest::Key));
            self.ours.forget(no);
        } else {
            self.ours.change(no, Contender::is_left);
        }
    }

    /// Fails every caller that has waited since then: what was sent before a caller came says nothing
    /// about it.
    pub(super) fn fail_waiting(
        &mut self,
        now: Instant,
        since: Instant,
        error: impl Fn(&Ticket) -> Error,
    ) {
        let waiting = self.callers.take_until(since);
        if let Some(first) = waiting.first() {
            let error = error(first);
            self.callers.notices_mut().failed_all(&error);
        }
        self.fail(now, waiting, error);
    }

    fn fail(&mut self, now: Instant, tickets: Vec<Ticket>, error: impl Fn(&Ticket) -> Error) {
        for ticket in tickets {
            let error = error(&ticket);
            self.callers.failed(now, &ticket, error);
        }
    }

    /// A list leaves out what the token may not read.
    pub(super) fn fail_incomplete(&mut self, now: Instant) {
        let prefix = self.settings.prefix.to_string();
        self.fail_waiting(now, now, |_| Error::IncompleteView {
            prefix: prefix.clone(),
            on: Subject::default(),
        });
    }

    /// Remembers the last failure, for those whose time runs out. A failure ends tries.
    pub(super) fn note(&mut self, now: Instant, failure: Option<RequestError>) {
        if let Some(error) = &failure {
            let tries = self.callers.take_tries();
            let error = error.at_face_value();
            self.fail(now, tries, |_| Error::Request(error.clone()));
        }
        self.callers.note(failure);
    }

    /// Why nobody is admitted, as far as is known. A read may have succeeded although no session
    /// can be created.
    pub(super) fn obstacle(&self) -> Option<RequestError> {
        let entering = self.ours.those(Stand::Entering);
        let mut own = entering.filter_map(|(_, it)| it.loan.failure());
        self.callers.failure().or_else(|| own.next()).cloned()
    }

    /// Fails those who wait for something that the record can't give.
    pub(super) fn judge_record(&mut self, now: Instant) {
        let conflict = match self.known.record.content() {
            Content::Unreadable(conflict) => conflict.clone(),
            Content::Record(record) => {
                let theirs = record.limit();
                if let Some(too_large) = self.lacks_room(record)
                    && self.is_read_for_all()
                {
                    self.fail_waiting(now, now, |_| too_large.clone().into());
                }
                self.judge_limit(now, theirs);
                return;
            }
            Content::Missing => {
                let limit = self.settings.limit;
                self.fail_over(now, limit);
                return;
            }
            Content::Unknown => return,
        };
        let key = self.settings.prefix.record_key();
        let error = || Error::Conflict {
            key: key.clone(),
            conflict: conflict.clone(),
            on: Subject::default(),
        };
        if self.is_read_for_all() {
            self.fail_waiting(now, now, |_| error());
        }
        // A name in it is never removed, since it is never overwritten.
        for no in self.ours.numbers_of(Stand::Leaving) {
            let contender = self.ours.get(no);
            if let Some(acquire) = contender.filter(|it| it.is_named).and_then(|it| it.owes) {
                self.tell_late(acquire, error());
            }
        }
    }

    /// Why no claim of the first caller fits into a transaction with the record, if others have made
    /// it so large.
    fn lacks_room(&self, record: &Record) -> Option<InvalidInput> {
        let permits = self.callers.queue().head()?.permits as usize;
        let mut left = Capacity::beside(Some(record), &self.settings);
        let fits = left.take(2 * permits, permits);
        (!fits).then(|| InvalidInput::RecordTooLarge {
            holders: record.holders().len(),
            len: record.encode().len(),
            max: Txn::MAX_BYTES,
        })
    }

    /// Whether the record was read after the last caller came. Nobody fails by what was seen before. The
    /// list shows who is dead, too.
    fn is_read_for_all(&mut self) -> bool {
        let newest = self.callers.queue().newest();
        let is_read = newest.is_none_or(|id| self.known.record.seen() > Moment(id.0));
        if !is_read {
            self.reads.require(Due::List);
        }
        is_read
    }

    fn judge_limit(&mut self, now: Instant, theirs: u32) {
        let ours = self.settings.limit;
        if theirs == ours {
            self.known.former_limit = None;
        }
        if self.callers.queue().is_empty() {
            return;
        }
        let will_be_ours = theirs != ours && self.may_become_ours();
        let is_settled = theirs == ours || self.settings.other_limit.is_adopted();
        let settled = if will_be_ours {
            Some(ours)
        } else {
            is_settled.then_some(theirs)
        };
        if let Some(limit) = settled {
            self.fail_over(now, limit);
        } else if self.known.former_limit != Some(theirs) && self.is_read_for_all() {
            self.fail_waiting(now, now, |_| Error::LimitConflict {
                ours,
                theirs,
                on: Subject::default(),
            });
        }
    }

    /// Fails those who want more slots than there are.
    fn fail_over(&mut self, now: Instant, limit: u32) {
        if self.callers.queue().widest() <= limit || !self.is_read_for_all() {
            return;
        }
        let over = self.callers.take_over(limit);
        self.fail(now, over, |ticket| {
            let wanted = ticket.permits;
            InvalidInput::PermitsOverLimit { wanted, limit }.into()
        });
    }

    /// Whether our limit may replace the record's, and nobody is seen to hold: everyone in it leaves
    /// or has no key any more.
    fn may_become_ours(&self) -> bool {
        if !self.settings.other_limit.is_replaced_if_idle() {
            return false;
        }
        let Some(record) = self.known.record.get() else {
            return false;
        };
        let is_over = |name: &str| match self.ours.of_session(name) {
            Some(no) => self.ours.get(no).is_some_and(|it| it.stand().leaves()),
            None => self.known.missing.is_keyless(name),
        };
        record.holders().all(is_over)
    }

    /// Why a try gets nothing.
    pub(super) fn refusal(&self, permits: u32) -> Refusal {
        let record = self.known.record.get();
        let limit = record.map_or(self.settings.limit, Record::limit);
        let held = record.map_or(0, |record| record.holders().len());
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let free = limit.saturating_sub(held);
        let withheld = u32::try_from(self.known.missing.suspects()).unwrap_or(u32::MAX);
        let waiters = u32::try_from(self.known.line.len()).unwrap_or(u32::MAX);
        if free >= permits && waiters > 0 {
            Refusal::OthersWait { waiters, free }
        } else if free + withheld >= permits && withheld > 0 {
            Refusal::LockDelay { withheld }
        } else {
            Refusal::LimitReached { free, limit }
        }
    }

    /// Whether a release waits behind the write under way, or the program ends.
    pub(super) fn is_in_a_hurry(&self) -> bool {
        let mut leaving = self.ours.leaving();
        let waits = leaving.any(|(no, it)| it.owes.is_some() && !self.is_under_way(no));
        waits || self.callers.is_closed() && self.ours.any_leaves()
    }

    /// Whether only things are left that could not be given back: an attempt has failed, and nobody
    /// waits here.
    pub(super) fn has_only_left_behind(&self) -> bool {
        // One of them may have been sent before the end.
        let is_held_up = self.writes.held_up > 1;
        let is_told = |(_, it): (ContenderNo, &Contender)| {
            it.owes.is_none() && (is_held_up || it.course() == Course::Left)
        };
        self.callers.queue().is_empty()
            && !self.ours.is_empty()
            && self
                .ours
                .all()
                .all(|it| it.1.stand().leaves() && is_told(it))
    }
}
