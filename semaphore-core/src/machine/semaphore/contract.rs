//! How its owner drives it: the contract of every machine, and when to come back.

use super::contender::{ContenderNo, Stand};
use super::reads::Due;
use super::step::Step;
use super::{From, Grant, HURRY, Participant, Slots, rules};
use crate::error::Error;
use crate::http::Response;
use crate::id::{CommandId, RequestId};
use crate::machine::callers::Holding;
use crate::machine::contract::{Event, Machine, Transmit};
use crate::machine::notice::Notice;
use crate::machine::process::moment::Moment;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::check::{Check, CheckNews};
use crate::machine::process::requests::{Received, Sender as _};
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::sessions::lone::Lone;
use crate::machine::status::{FirstWaiter, Status};
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

impl Participant {
    /// Takes the outcome of a request. Returns how it ended.
    fn take_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        // The clock ends beliefs, no matter what comes.
        self.end_beliefs(now);
        if let Some(lone) = &mut self.lone
            && let Some(end) = lone.handle_response(now, id, result)
        {
            self.settle(now);
            return end;
        }
        let (received, end) = self.requests.receive(now, id, result)?;
        let Received {
            from,
            sent_at,
            answer,
            ..
        } = received;
        match from {
            From::Step => self.take_outcome(now, sent_at, answer),
            From::Read => self.take_read(now, answer),
            From::Poll => self.take_poll(now, Moment::of(id), sent_at, answer),
        }
        self.settle(now);
        end
    }

    /// The earliest moment at which anything would come out differently.
    fn wakes_at(&self) -> Option<Instant> {
        let after = self.timed_at;
        let situation = self.situation(after);
        let stay = situation.stay();
        let idle = self.ours.those(Stand::Idle);
        let idle = idle.map(|(_, it)| it.slot_since + stay).min();
        let first = situation.first_waiter();
        let waits = first.is_some();
        let patience = self.known.record.patient_until().filter(|_| waits);
        let missing = self.known.missing.due_after(after).filter(|_| waits);
        let over = self.ours.those(Stand::Over);
        let late = over.filter_map(|(_, it)| it.late_until()).min();
        let hurry = self
            .writes
            .step
            .as_ref()
            .map(|(_, sent_at)| *sent_at + HURRY);
        let hurry = hurry.filter(|_| self.is_in_a_hurry());
        let holds = self.watched_from().filter(|_| !waits);
        let others = self.known.line.others_at().map(|at| at + rules::POLL);
        let others = others.filter(|_| !self.callers.queue().is_empty());
        let reads = self.needs_reads();
        [
            self.callers.queue().timeout(),
            self.ours.end_after(after),
            idle,
            patience,
            missing,
            late,
            hurry,
            holds,
            others,
            self.needs_reads().then_some(self.writes.asked_at),
            self.writes.pause.timeout(),
            self.writes.respawn.timeout(),
            self.reads.timeout(after, reads).filter(|_| reads),
            self.warns_at(),
            self.lone.as_ref().and_then(|lone| lone.poll_timeout()),
        ]
        .into_iter()
        .flatten()
        .filter(|at| *at > after)
        .min()
    }

    /// When the next warning of a lease's end is due.
    fn warns_at(&self) -> Option<Instant> {
        let is_due = self.callers.notices().is_heard() && self.ours.count(Stand::Holding) > 0;
        let warning = self.settings.session.warning();
        let ends = is_due.then(|| self.ours.end_after(self.timed_at + warning));
        Some(ends.flatten()? - warning)
    }
}

/// Holding means having every requested slot: each contender is in the record, and its belief is
/// valid.
impl Machine for Participant {
    type Grant = Grant;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.transmit(now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        let lone = self.lone.as_mut().and_then(|lone| lone.poll_abort());
        lone.or_else(|| self.requests.poll_abort())
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.take_response(now, id, &result);
    }

    fn hear_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        self.take_response(now, id, &result)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wakes_at()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.timed_at = self.timed_at.max(now);
        if let Some(lone) = &mut self.lone {
            lone.handle_timeout(now);
        }
        for ticket in self.callers.take_expired(now) {
            let failure = self.obstacle();
            self.callers.timed_out(now, &ticket, failure, self.seen());
        }
        self.end_beliefs(now);
        self.warn(now);
        let is_late = |(_, sent_at): &(Step, Instant)| *sent_at + HURRY <= now;
        if self.is_in_a_hurry() && self.writes.step.as_ref().is_some_and(is_late) {
            self.requests.abort(|from| from == From::Step);
            self.outcome_unknown(now);
        }
        if self.reads.poll_late_at().is_some_and(|at| at <= now) {
            self.reads.drop_poll();
            self.requests.abort(|from| from.polls());
            self.reads.require(Due::List);
        }
        self.settle(now);
    }

    fn poll_event(&mut self) -> Option<Event<Grant>> {
        self.callers.poll_event()
    }

    fn listen(&mut self, listens: bool) {
        self.callers.notices_mut().listen(listens);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.callers.poll_notice()
    }

    fn status(&self, now: Instant) -> Status {
        let held = self.ours.those(Stand::Holding);
        let held = held.filter(|(_, it)| it.believed_until().is_some_and(|until| now < until));
        let first = self.callers.queue().head();
        Status {
            held: u32::try_from(held.count()).unwrap_or(u32::MAX),
            waiting: self.callers.queue().len(),
            first_waiter: first.map(|first| FirstWaiter {
                waited: now.saturating_since(first.since),
                ahead: self.ahead(),
            }),
            trouble: None,
            renewed: self.callers.notices().renewed_before(now),
        }
    }

    fn subject(&self, agent: Option<String>) -> Subject {
        Subject::of_semaphore(self.settings.prefix.as_str(), self.settings.limit(), agent)
    }

    fn poll_wish(&mut self) -> Option<LoanWish> {
        if self.lone.is_some() {
            return None;
        }
        self.ours.poll_wish()
    }

    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        self.end_beliefs(now);
        self.take_loan(now, news);
        self.settle(now);
    }

    fn check(&self) -> Option<Check> {
        self.shared_check()
    }

    fn handle_check(&mut self, now: Instant, news: CheckNews) {
        self.take_check(news);
        self.settle(now);
    }

    fn close(&mut self, now: Instant) {
        self.callers.close();
        // What could not leave so far is tried once more.
        self.writes.held_up = 0;
        self.fail_waiting(now, now, |_| Error::closed());
        if let Some(lone) = &mut self.lone {
            lone.close(now);
        }
        self.settle(now);
    }

    fn is_idle(&self) -> bool {
        let has_sessions = self.lone.as_ref().is_some_and(|lone| !lone.is_empty());
        self.callers.queue().is_empty() && self.ours.is_empty() && !has_sessions
    }

    fn is_quiet(&self) -> bool {
        let is_held_up = |lone: &Lone| self.ours.is_empty() && lone.is_held_up();
        let is_left_alone = self.lone.as_deref().is_some_and(is_held_up);
        let nobody_waits = self.callers.queue().is_empty();
        self.is_idle() || self.has_only_left_behind() || nobody_waits && is_left_alone
    }

    fn cancel(&mut self, now: Instant, acquire: CommandId) {
        self.end_beliefs(now);
        self.give_up(now, acquire);
        self.writes.asked_at = now + super::JUST_AFTER;
        self.settle(now);
    }

    fn release(&mut self, now: Instant, acquire: CommandId) {
        // The clock ends the belief, no matter who looks first.
        self.end_beliefs(now);
        self.take_release(now, acquire);
        self.writes.asked_at = now + super::JUST_AFTER;
        self.settle(now);
    }

    fn is_held(&self, now: Instant, acquire: CommandId) -> bool {
        let is_lost = |hold: &Holding<Slots>| hold.lost.is_some();
        let is_believed = self.callers.hold(acquire).is_some_and(|hold| {
            let holds = |no: &ContenderNo| {
                let contender = self.ours.get(*no);
                contender.is_some_and(|it| it.held_for() == Some(acquire))
            };
            !is_lost(hold) && hold.of.contenders.iter().all(holds)
        });
        is_believed && self.deadline(acquire).is_none_or(|deadline| now < deadline)
    }

    fn deadline(&self, acquire: CommandId) -> Option<Instant> {
        let hold = self.callers.hold(acquire)?;
        let contenders = hold.of.contenders.iter();
        let ends = contenders.map(|no| self.ours.get(*no)?.believed_until());
        ends.min().flatten()
    }
}
