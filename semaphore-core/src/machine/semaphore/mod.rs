//! The machine that is driven: one process's part in one semaphore.
//!
//! Any number of callers queue here. For them it has one watch, one writer of the record, and a few
//! contenders: as many as hold a slot, and some that queue in advance. It is a sans-IO machine:
//!
//! ```text
//! acquire · cancel · release · close      commands
//! poll_transmit                           what to send
//! handle_response                         what came back, in any order, late or twice
//! poll_timeout, handle_timeout            when to call again
//! poll_event                              what happened
//! poll_abort                              which answers are of no more use
//! ```
//! Polls may come in any order, and superfluous calls do nothing. The files, in the order in which
//! an answer passes them:
//!
//! | | |
//! |---|---|
//! | [`traffic`], [`sender`] | what is sent next; what comes back, to whom it belongs |
//! | [`views`], [`knowledge`] | what is compared with what was known; what is known |
//! | [`writes`], [`ledger`], [`steps`] | the record, and how it is written |
//! | [`contender`], [`key`], [`roster`] | one session's part; its key; all of ours |
//! | [`vanished`] | holders whose key has gone, and when they may be pruned |
//! | [`settle`] | what follows from it all, once per input: how many of ours contend, and what is read |
//! | [`failures`] | whose wait fails |
//! | [`plan`] | what is written next |
//! | [`admission`] | the rules of who may claim, pass by or prune, as one function of a view |
//! | [`claims`], [`departures`] | grants, and how they end |
//! | [`outlook`], [`focus`] | what is to be read next, when, and of whom, as a function of what is known |
//! | [`watch`], [`refresh`] | the reads themselves: polls and lists |
//! | [`spare`] | sessions that are kept for the next turn |
//! | [`availability`] | what is free, for those who only want to know |

mod admission;
mod availability;
mod claims;
mod contender;
mod departures;
mod failures;
mod focus;
mod key;
mod knowledge;
mod ledger;
mod outlook;
mod plan;
mod refresh;
mod room;
mod roster;
mod sender;
mod settings;
mod settle;
mod spare;
mod steps;
mod traffic;
mod vanished;
mod views;
mod watch;
mod writes;

use self::knowledge::Knowledge;
use self::roster::{Group, Roster};
use crate::error::{Error, Holder, Refusal, RequestError, Seen};
use crate::http::Response;
use crate::id::{CommandId, FencingToken, RequestId};
use crate::input::InvalidInput;
use crate::machine::callers::{Caller, Callers, Patience, Ticket};
use crate::machine::contract::{Event, Machine, Transmit};
use crate::machine::notice::Notice;
use crate::machine::process::moment::Moment;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::check::{Check, CheckNews};
use crate::machine::process::requests::Requests;
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::timers::{Timer, Timers};
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::ledger::Ledger;
use crate::machine::semaphore::outlook::Outlook;
use crate::machine::semaphore::sender::From;
use crate::machine::semaphore::vanished::Vanished;
use crate::machine::semaphore::watch::Watch;
use crate::machine::status::{FirstWaiter, Status};
use crate::record::Record;
use crate::sequencer::Sequencer;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

pub use self::availability::Availability;
pub use self::settings::Settings;

/// One process's part in one semaphore: a sans-IO machine. Polls may come in any order, and
/// superfluous calls do nothing.
///
/// A clone is for looking ahead, as in an exhaustive exploration. It uses the same sessions, so
/// only one of the two may continue with the same Consul.
#[derive(Clone, Debug)]
pub struct Participant {
    settings: Settings,
    rng: fastrand::Rng,
    requests: Requests<From>,
    watch: Watch,
    ledger: Ledger,
    vanished: Vanished,
    callers: Callers<Grant, Slots>,
    roster: Roster,
    knowledge: Knowledge,
    /// When [`Self::handle_timeout`] was last called.
    timed_at: Instant,
}

/// The content of a granted acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Higher than any earlier one on this prefix.
    pub token: FencingToken,
    /// The sequencers of its contender keys, one for each permit.
    pub sequencers: Vec<Sequencer>,
}

/// What a granted acquisition has.
#[derive(Clone, Debug)]
struct Slots {
    contenders: Vec<ContenderNo>,
    /// Why one of them could not leave properly.
    failure: Option<RequestError>,
}

impl Participant {
    /// An idle participant. `seed` decides its jitter: use a different seed for each, and a fixed
    /// one to repeat a run.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            watch: Watch::new(&settings),
            ledger: Ledger::new(&settings),
            vanished: Vanished::new(&settings),
            roster: Roster::new(&settings),
            rng: fastrand::Rng::with_seed(seed),
            requests: Requests::new(settings.request_timeout(), settings.session.lease_time()),
            callers: Callers::new(),
            knowledge: Knowledge::new(),
            timed_at: Instant::ORIGIN,
            settings,
        }
    }

    /// Uses this seed for its jitter from now on. A model checker does so before each step, so that
    /// the path to a state does not affect what follows.
    #[doc(hidden)]
    pub fn reseed(&mut self, seed: u64) {
        self.rng.seed(seed);
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits for `permits` slots at once, or until `deadline` if there is one.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a number of permits that can never be granted, [`Error::Closed`]
    /// after [`Self::close`]. Then nothing is sent.
    pub fn acquire(
        &mut self,
        now: Instant,
        permits: u32,
        deadline: Option<Instant>,
    ) -> Result<CommandId, Error> {
        let patience = deadline.map_or(Patience::Unlimited, Patience::Until);
        self.enqueue(now, permits, patience)
    }

    /// Takes `permits` slots if they are free now. Answered by [`Event::NotAvailable`] if they are
    /// not, or if others already wait for them.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub fn try_acquire(&mut self, now: Instant, permits: u32) -> Result<CommandId, Error> {
        self.enqueue(now, permits, Patience::None)
    }

    /// Contends with another limit from now on, because the record is about to be resized or was.
    /// Until the record shows this limit, the former one is no conflict. Returns the former one.
    ///
    /// # Errors
    /// [`InvalidInput::LimitZero`].
    pub fn set_limit(&mut self, now: Instant, limit: u32) -> Result<u32, InvalidInput> {
        if limit == 0 {
            return Err(InvalidInput::LimitZero);
        }
        let former = core::mem::replace(&mut self.settings.limit, limit);
        self.knowledge.tolerate_limit(former);
        self.settle(now);
        Ok(former)
    }

    /// Why nobody is admitted, as far as is known. A read may have succeeded although no session
    /// can be created.
    fn obstacle(&self) -> Option<RequestError> {
        let wanting = self.roster.those(Group::Wanting);
        let mut own = wanting.filter_map(|(_, it)| it.failure());
        self.callers.failure().or_else(|| own.next()).cloned()
    }

    /// The others according to Consul's last answer.
    fn seen(&self, now: Instant) -> Option<Seen> {
        let observed = self.knowledge.newest()?;
        let record = observed.view.record();
        let holders = record.into_iter().flat_map(Record::holders);
        let holders = holders.map(|it| Holder::new(it, observed.view.value_of(it)));
        Some(Seen {
            holders: holders.collect(),
            limit: Some(record.map_or(self.settings.limit, Record::limit)),
            ahead: self.ahead(now),
        })
    }

    /// How many of other processes wait ahead, if that is known.
    fn ahead(&self, now: Instant) -> Option<u32> {
        let observed = self.knowledge.newest()?;
        let is_queued = self.roster.first_in_queue().is_some();
        is_queued.then(|| self.outlook().ahead(now, Some(observed)))
    }

    fn let_time_pass(&mut self, now: Instant, no: ContenderNo) {
        let moment = self.moment();
        let event = self.roster.get_mut(no).and_then(|mut contender| {
            contender.handle_timeout(now, moment, self.callers.failure())
        });
        self.handle_contender_event(now, no, event);
    }

    fn enqueue(
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
        let max = room::most_permits(&self.settings);
        if permits > max {
            let wanted = permits;
            return Err(InvalidInput::PermitsOverTransaction { wanted, max }.into());
        }
        self.callers.ensure_open()?;
        let acquire = CommandId(self.requests.number());
        self.roster.spares().wanted_at(now);
        // An instant try needs a current answer before it is told that no slot is free.
        if patience == Patience::None
            && let Some(observed) = self.knowledge.newest_mut()
            && self.watch.start_over()
        {
            observed.outdate();
        }
        let behind_others = patience == Patience::None && self.callers.queue().has_waiters();
        if behind_others {
            self.callers.not_available(acquire, Refusal::OthersHere);
        } else {
            self.callers.enter(Ticket {
                id: acquire,
                permits,
                since: now,
                patience,
            });
        }
        self.settle(now);
        Ok(acquire)
    }

    fn is_believed(&self, acquire: CommandId) -> bool {
        let hold = self.callers.hold(acquire);
        hold.is_some_and(|hold| {
            hold.lost.is_none() && self.roster.all_hold(&hold.of.contenders, acquire)
        })
    }

    /// How many slots are free, according to the last answer. `None` if it is unknown: nobody waits
    /// or holds here, the first answer has not come, or the record can't be read. It sends nothing.
    pub fn availability(&self, now: Instant) -> Option<Availability> {
        Availability::of(now, &self.knowledge, &self.roster, self.settings.limit)
    }

    /// Decides what to read next.
    fn outlook(&self) -> Outlook<'_> {
        Outlook {
            settings: &self.settings,
            queue: self.callers.queue(),
            roster: &self.roster,
            knowledge: &self.knowledge,
            ledger: &self.ledger,
            watch: &self.watch,
            requests: &self.requests,
        }
    }

    /// Whether only things are left that could not be given back: their callers were told why it
    /// takes longer, and nobody waits here.
    fn has_only_left_behind(&self) -> bool {
        self.callers.queue().is_empty() && self.roster.has_only_left_behind()
    }

    /// Until when nothing is sent.
    fn rests_until(&self) -> Option<Instant> {
        let rest = self.roster.rests_until();
        rest.filter(|_| self.has_only_left_behind())
    }

    /// What it waits for.
    fn timers(&self) -> Timers {
        Timers::after(self.timed_at)
            .with(Timer::Caller, self.callers.queue().timeout())
            .with_all(self.roster.timers(self.timed_at))
            .with(Timer::Confirmation, self.roster.confirms_at())
            .with(Timer::Creation, self.requests.orphans().timeout())
            .with(Timer::Write, self.ledger.timeout())
            .with(Timer::Poll, self.watch.timeout())
            .with(Timer::Read, self.watch.read_timeout())
            .with(Timer::FirstView, self.outlook().first_view_until())
            .with(Timer::Question, self.vanished.asks_at())
            .with(Timer::LockDelay, self.vanished.lock_delay_until())
            .with(Timer::Warning, self.warns_at())
            .resting_until(self.rests_until())
    }

    /// When the next warning is due.
    fn warns_at(&self) -> Option<Instant> {
        let is_due = self.callers.notices().is_heard() && self.roster.has_any(Group::Held);
        let warning = self.settings.session.warning();
        let ends = is_due.then(|| self.roster.ends_after(self.timed_at + warning));
        Some(ends.flatten()? - warning)
    }

    /// Warns observers of leases that end soon.
    fn warn(&mut self, now: Instant) {
        if !self.callers.notices().is_heard() {
            return;
        }
        for no in self.roster.ended(now + self.settings.session.warning()) {
            let held = self.held_until(no);
            if let Some((acquire, until)) = held.filter(|(_, until)| *until > now) {
                self.callers.notices_mut().ends_soon(now, acquire, until);
            }
        }
    }

    /// When the belief of this contender ends, and for which acquisition it holds.
    fn held_until(&self, no: ContenderNo) -> Option<(CommandId, Instant)> {
        let contender = self.roster.get(no)?;
        Some((contender.held_for()?, contender.deadline()?))
    }

    /// Tells observers that a lease was extended.
    fn note_renewal(
        &mut self,
        now: Instant,
        no: ContenderNo,
        before: Option<(CommandId, Instant)>,
    ) {
        let held = self.held_until(no);
        if let (Some((_, before)), Some((acquire, until))) = (before, held)
            && before < until
        {
            self.callers
                .notices_mut()
                .renewed(now, acquire, before, until);
        }
    }

    /// The present moment in the order of what is sent and learned.
    fn moment(&self) -> Moment {
        self.requests.moment()
    }
}

/// Holding means having every requested slot: each contender is in the record, and its lease is
/// valid.
impl Machine for Participant {
    type Grant = Grant;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.transmit(now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        self.requests.poll_abort()
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
        self.timers().timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.timed_at = self.timed_at.max(now);
        for ticket in self.callers.take_expired(now) {
            self.drop_claim(now, ticket.id);
            self.callers
                .timed_out(now, &ticket, self.obstacle(), self.seen(now));
        }
        for no in self.roster.ended(now) {
            self.let_time_pass(now, no);
        }
        self.roster.bound_left_behind();
        self.warn(now);
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
        let held = self.roster.those(Group::Held);
        let held = held.filter(|(_, it)| it.deadline().is_none_or(|until| now < until));
        let first = self.callers.queue().head();
        Status {
            held: u32::try_from(held.count()).unwrap_or(u32::MAX),
            waiting: self.callers.queue().len(),
            first_waiter: first.map(|first| FirstWaiter {
                waited: now.saturating_since(first.since),
                ahead: self.ahead(now),
            }),
            trouble: None,
            renewed: self.callers.notices().renewed_before(now),
        }
    }

    fn subject(&self, agent: Option<String>) -> Subject {
        Subject::of_semaphore(self.settings.prefix.as_str(), self.settings.limit(), agent)
    }

    fn poll_wish(&mut self) -> Option<LoanWish> {
        self.roster.poll_wish()
    }

    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        self.take_loan(now, news);
    }

    fn check(&self) -> Option<Check> {
        self.outlook().check()
    }

    fn handle_check(&mut self, now: Instant, news: CheckNews) {
        self.take_check(now, news);
    }

    fn close(&mut self, now: Instant) {
        self.callers.close();
        self.fail_waiting(now, |_| Error::closed());
        self.roster.spares().close(now);
        self.settle(now);
    }

    fn is_idle(&self) -> bool {
        self.callers.queue().is_empty() && self.roster.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.callers.queue().is_empty() && self.roster.has_only_held_up()
    }

    fn cancel(&mut self, now: Instant, acquire: CommandId) {
        self.callers.give_up(now, acquire);
        self.drop_claim(now, acquire);
        if self.callers.hold(acquire).is_some() {
            self.give_back(now, acquire, Caller::Gone);
        }
        self.settle(now);
    }

    fn release(&mut self, now: Instant, acquire: CommandId) {
        // The clock ends the belief, no matter who looks first.
        let contenders = self
            .callers
            .hold(acquire)
            .map(|it| it.of.contenders.clone());
        for no in contenders.into_iter().flatten() {
            self.let_time_pass(now, no);
        }
        match self.callers.hold(acquire).map(|it| it.lost.clone()) {
            None => self.callers.done(acquire, Ok(())),
            Some(None) => self.give_back(now, acquire, Caller::Released),
            // There is nothing to wait for: the cleanup of a loss goes on behind.
            Some(Some(lost)) => {
                self.give_back(now, acquire, Caller::Gone);
                self.callers.done(acquire, Err(Error::Lost(lost)));
            }
        }
        self.settle(now);
    }

    fn is_held(&self, now: Instant, acquire: CommandId) -> bool {
        self.is_believed(acquire) && self.deadline(acquire).is_none_or(|deadline| now < deadline)
    }

    fn deadline(&self, acquire: CommandId) -> Option<Instant> {
        let hold = self.callers.hold(acquire)?;
        self.roster.deadline(&hold.of.contenders)
    }
}

#[cfg(test)]
mod tests;
