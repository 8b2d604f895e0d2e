//! The local callers of a machine: who waits, who holds, and what they are told.
//!
//! ```text
//!  enter ──▶ waiting ──granted──▶ holding ──lost──▶ holding what is lost ──┐
//!               │                    │                                     │ nothing of it is left
//!               └─ fail · refuse     └────────────── released ─────────────┴──▶ done
//! ```

mod queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::Awaited;
use crate::error::{Error, Lost, Refusal, RequestError, Seen};
use crate::id::{CommandId, FencingToken};
use crate::machine::contract::Event;
use crate::machine::notice::{Notice, Notices};
use crate::subject::Subject;
use crate::time::Instant;
use crate::work;

pub(super) use queue::{Patience, Queue, Ticket};

/// The callers of one machine, which get grants of type `G`. `T` is what the machine keeps for each
/// holder.
#[derive(Clone, Debug)]
pub(super) struct Callers<G, T> {
    queue: Queue,
    holds: BTreeMap<CommandId, Holding<T>>,
    /// The holds that were given back.
    given_back: BTreeSet<CommandId>,
    events: VecDeque<Event<G>>,
    /// The last failure since the last success.
    failure: Option<RequestError>,
    notices: Notices,
    is_closed: bool,
}

/// A grant that is not gone yet.
#[derive(Clone, Debug)]
pub(super) struct Holding<T> {
    pub(super) lost: Option<Lost>,
    pub(super) caller: Caller,
    pub(super) of: T,
}

/// Whether somebody still has the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Its caller has it.
    Present,
    /// Its caller gave it back and waits for the end.
    Released,
    /// Its caller is gone.
    Gone,
}

impl<G, T> Callers<G, T> {
    pub(super) fn new() -> Self {
        Self {
            queue: Queue::default(),
            holds: BTreeMap::new(),
            given_back: BTreeSet::new(),
            events: VecDeque::new(),
            failure: None,
            notices: Notices::default(),
            is_closed: false,
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// # Errors
    /// [`Error::Closed`].
    pub(super) fn ensure_open(&self) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// The waiting callers.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The notices for observers.
    pub(super) fn notices(&self) -> &Notices {
        &self.notices
    }

    pub(super) fn notices_mut(&mut self) -> &mut Notices {
        &mut self.notices
    }

    pub(super) fn enter(&mut self, ticket: Ticket) {
        self.queue.push(ticket);
        self.notices.queued(&ticket, self.queue.len());
    }

    /// Removes a waiter from the queue, if it is there.
    pub(super) fn take(&mut self, command: CommandId) -> Option<Ticket> {
        self.queue.remove(command)
    }

    /// Removes a waiter that gives up, and what nobody has heard of it, but for the answer to a release.
    /// Returns whether it waited.
    pub(super) fn give_up(&mut self, now: Instant, command: CommandId) -> bool {
        self.events
            .retain(|it| it.command() != command || matches!(it, Event::Done { .. }));
        let ticket = self.queue.remove(command);
        if let Some(ticket) = &ticket {
            self.notices.given_up(now, ticket);
        }
        ticket.is_some()
    }

    /// Removes the waiters that came until then.
    pub(super) fn take_until(&mut self, then: Instant) -> Vec<Ticket> {
        self.queue.drain_until(then)
    }

    /// Removes the instant tries.
    pub(super) fn take_tries(&mut self) -> Vec<Ticket> {
        self.queue.drain_tries()
    }

    /// Removes the waiters that want more than the limit.
    pub(super) fn take_over(&mut self, limit: u32) -> Vec<Ticket> {
        self.queue.drain_over(limit)
    }

    /// Removes the waiters whose time is over.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<Ticket> {
        self.queue.drain_expired(now)
    }

    /// Remembers the last failure, for those whose time runs out.
    pub(super) fn note(&mut self, failure: Option<RequestError>) {
        self.failure = failure;
    }

    pub(super) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    pub(super) fn hold(&self, command: CommandId) -> Option<&Holding<T>> {
        self.holds.get(&command)
    }

    pub(super) fn hold_mut(&mut self, command: CommandId) -> Option<&mut Holding<T>> {
        self.holds.get_mut(&command)
    }

    /// Its caller gives it back. `caller` says whether it waits for the end.
    pub(super) fn give_back(
        &mut self,
        now: Instant,
        command: CommandId,
        caller: Caller,
    ) -> Option<&mut Holding<T>> {
        let hold = self.holds.get_mut(&command)?;
        self.notices.released(now, command);
        hold.caller = caller;
        self.given_back.insert(command);
        Some(hold)
    }

    pub(super) fn holds_mut(&mut self) -> impl Iterator<Item = &mut Holding<T>> {
        self.holds.values_mut().inspect(|_| work::passed(1))
    }

    /// The caller of this command is told nothing more.
    pub(super) fn forget(&mut self, command: CommandId) -> Option<Holding<T>> {
        self.given_back.remove(&command);
        self.holds.remove(&command)
    }

    /// Removes what was given back if nothing of it is left.
    pub(super) fn take_given_back(
        &mut self,
        is_over: impl Fn(&Holding<T>) -> bool,
    ) -> Vec<(CommandId, Holding<T>)> {
        work::passed(self.given_back.len());
        let given_back = self.given_back.clone();
        self.take_given_back_of(&given_back, is_over)
    }

    /// The same, only for these commands.
    pub(super) fn take_given_back_of(
        &mut self,
        commands: &BTreeSet<CommandId>,
        is_over: impl Fn(&Holding<T>) -> bool,
    ) -> Vec<(CommandId, Holding<T>)> {
        work::passed(commands.len());
        let given_back = commands.iter().copied();
        let over: Vec<_> = given_back
            .filter(|command| self.given_back.contains(command))
            .filter(|command| self.hold(*command).is_some_and(&is_over))
            .collect();
        let taken = over.into_iter();
        taken
            .filter_map(|command| Some((command, self.forget(command)?)))
            .collect()
    }

    pub(super) fn granted(
        &mut self,
        now: Instant,
        ticket: &Ticket,
        (token, grant): (FencingToken, G),
        of: T,
    ) {
        let command = ticket.id;
        self.notices.granted(now, ticket, token);
        let hold = Holding {
            lost: None,
            caller: Caller::Present,
            of,
        };
        self.holds.insert(command, hold);
        self.events.push_back(Event::Granted { command, grant });
    }

    pub(super) fn not_available(&mut self, command: CommandId, refusal: Refusal) {
        self.notices.tell(|| Notice::NotAvailable {
            command,
            refusal: refusal.clone(),
        });
        self.events
            .push_back(Event::NotAvailable { command, refusal });
    }

    pub(super) fn failed(&mut self, now: Instant, ticket: &Ticket, error: Error) {
        let command = ticket.id;
        self.notices.failed(now, ticket, &error);
        self.events.push_back(Event::Failed { command, error });
    }

    /// Its time is over. The reason is the last failure, or what was seen of the others.
    pub(super) fn timed_out(
        &mut self,
        now: Instant,
        ticket: &Ticket,
        last_failure: Option<RequestError>,
        seen: Option<Seen>,
    ) {
        let waited = now.saturating_since(ticket.since);
        let last_failure = last_failure.map(|failure| failure.at_face_value().clone());
        let error = Error::Timeout {
            within: Awaited::Grant,
            waited,
            last_failure,
            seen: seen.map(Box::new),
            unanswered: None,
            unattended: None,
            on: Subject::default(),
        };
        self.failed(now, ticket, error);
    }

    /// A caller learns that its hold is lost.
    pub(super) fn lost(&mut self, now: Instant, command: CommandId, reason: Lost) {
        self.notices.lost(now, command, &reason);
        self.events.push_back(Event::Lost { command, reason });
    }

    pub(super) fn done(&mut self, command: CommandId, result: Result<(), Error>) {
        self.events.push_back(Event::Done { command, result });
    }

    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.poll()
    }

    pub(super) fn poll_event(&mut self) -> Option<Event<G>> {
        self.events.pop_front()
    }
}
