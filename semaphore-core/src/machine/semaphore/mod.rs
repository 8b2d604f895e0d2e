//! The machine of one process's part in one semaphore, by docs/PROTOCOL.md.
//!
//! It knows the callers here, our contenders, and what Consul last said: the record and the line. It
//! has at most one write under way (a step), one read, and one poll. Every event goes the same way:
//!
//! ```text
//! learn    what came: an answer, a session's news, a caller, the clock     answers, learn, outcome, sessions, turns
//! decide   what is due, as functions of what is known                      rules
//! write    if no step is under way: one transaction, composed now          send, step
//! watch    the read or the poll that is due                                reads
//! wake     the earliest moment at which any of this would come out differently
//! ```
//! | file | says |
//! |---|---|
//! | `contender`, `contenders` | one session that waits, owns a slot or leaves; all of ours |
//! | `record`, `line`, `missing` | what Consul last said; who waits ahead; holders without a key |
//! | `rules` | who may enter, claim, hand over, pass out of turn or prune |
//! | `step`, `outcome` | one transaction; what its answer means |
//! | `reads` | what is read, and whom the poll watches |
//! | `send` | what is sent next, and in which order |
//! | `answers`, `learn` | what reads, polls and proofs say; what is known then |
//! | `sessions` | what the sessions' pool says |
//! | `ours` | how many of ours contend, and who is forgotten |
//! | `turns` | the callers' side: asking, giving back, losing, failing |
//! | `settings`, `availability` | what it contends for; how many slots were free |
//! | `lone` | the pool of a semaphore that shares its sessions with nobody |

mod answers;
mod availability;
mod contender;
mod contenders;
mod learn;
mod line;
mod lone;
mod missing;
mod ours;
mod outcome;
mod reads;
mod record;
mod rules;
mod send;
mod sessions;
mod settings;
mod step;
#[cfg(test)]
mod tests;
mod turns;

use core::time::Duration;

pub use self::availability::Availability;
use self::contender::{ContenderNo, Stand};
use self::contenders::Contenders;
use self::line::Line;
use self::lone::Lone;
use self::missing::Missing;
use self::reads::{Due, Reads};
use self::record::KnownRecord;
use self::rules::Situation;
pub use self::settings::Settings;
use self::step::Step;
use crate::error::{Error, Holder, RequestError, Seen};
use crate::http::Response;
use crate::id::{CommandId, FencingToken, RequestId};
use crate::input::InvalidInput;
use crate::machine::callers::{Callers, Holding, Patience};
use crate::machine::contract::{Event, Machine, Transmit};
use crate::machine::notice::Notice;
use crate::machine::process::moment::Moment;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::backoff::jitter;
use crate::machine::process::reader::check::{Check, CheckNews};
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::requests::{Received, Requests, Sender};
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::status::{FirstWaiter, Status};
use crate::record::Record;
use crate::sequencer::Sequencer;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

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
    callers: Callers<Grant, Slots>,
    ours: Contenders,
    known: Known,
    reads: Reads,
    writes: Writes,
    /// Its pool, unless the sessions are lent by others.
    lone: Option<Box<Lone>>,
    timed_at: Instant,
}

/// What Consul last said.
#[derive(Clone, Debug)]
struct Known {
    record: KnownRecord,
    line: Line,
    missing: Missing,
    /// When the newest list was sent.
    listed: Moment,
    /// A limit that the record may still show, after ours was changed.
    former_limit: Option<u32>,
}

/// The write under way, and when the next one may come.
#[derive(Clone, Debug)]
struct Writes {
    step: Option<(Step, Instant)>,
    /// Just after the last command: what it asks for is sent at once, also where a clock stands still.
    asked_at: Instant,
    pause: Pause,
    /// How often in a row a write was refused because of the record, or for another reason.
    refused: u32,
    unfounded: u32,
    /// Both kinds take turns.
    was_handover: bool,
    /// How many attempts to leave have failed in a row.
    held_up: u32,
    /// When the last one ended: a read that was sent before proves nothing about it.
    ended: Moment,
    /// Another contender may come then, after one that could not go on.
    respawn: Pause,
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
    /// Those of them that are not given back yet.
    owed: Vec<ContenderNo>,
    /// Why one of them could not leave properly.
    failure: Option<RequestError>,
}

/// Which part of a participant sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Step(Service),
    Read,
    Poll,
}

impl Sender for From {
    fn polls(&self) -> bool {
        matches!(self, Self::Poll)
    }
}

impl From {
    /// The permission that the request needs, so that a refusal of one says nothing about another
    /// (L4).
    fn service(self) -> Service {
        match self {
            Self::Step(service) => service,
            Self::Poll => Service::Inquiries,
            Self::Read => Service::Reads,
        }
    }
}

/// While a release is due, or at the end of the program, a write that is unanswered for so long
/// counts as unknown.
const HURRY: Duration = Duration::from_secs(1);

/// The next moment of any clock.
const JUST_AFTER: Duration = Duration::from_nanos(1);

/// PATIENCE: how long those ahead may leave a slot unused. It is drawn, so that not all pass at once.
fn patience(rng: &mut fastrand::Rng) -> Duration {
    let half = Duration::from_millis(500);
    jitter(half, half, rng)
}

impl Participant {
    /// An idle participant. `seed` decides its jitter: use a different seed for each, and a fixed
    /// one to repeat a run.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let longest = settings.session.request_timeout();
        let lone = (!settings.shares_sessions()).then(|| Box::new(Lone::new(&settings, seed)));
        Self {
            rng: fastrand::Rng::with_seed(seed),
            requests: Requests::new(longest, settings.session.lease_time()),
            callers: Callers::new(),
            ours: Contenders::default(),
            known: Known {
                record: KnownRecord::new(),
                line: Line::default(),
                missing: Missing::default(),
                listed: Moment::START,
                former_limit: None,
            },
            reads: Reads::new(&settings),
            writes: Writes {
                step: None,
                asked_at: Instant::ORIGIN,
                pause: Pause::new(longest),
                refused: 0,
                unfounded: 0,
                was_handover: false,
                held_up: 0,
                ended: Moment::START,
                respawn: Pause::new(longest),
            },
            lone,
            timed_at: Instant::ORIGIN,
            settings,
        }
    }

    /// Uses this seed for its jitter from now on. A model checker does so before each step, so that
    /// the path to a state does not affect what follows.
    #[doc(hidden)]
    pub fn reseed(&mut self, seed: u64) {
        self.rng.seed(seed);
        if let Some(lone) = &mut self.lone {
            lone.reseed(seed);
        }
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
        self.known.former_limit = Some(former);
        self.settle(now);
        Ok(former)
    }

    /// How many slots are free, according to the last answer. `None` if it is unknown: nobody waits
    /// or holds here, the first answer has not come, or the record can't be read. It sends nothing.
    pub fn availability(&self, now: Instant) -> Option<Availability> {
        if self.callers.queue().is_empty() && self.ours.is_empty() {
            return None;
        }
        let record = &self.known.record;
        let limit = match record.content() {
            record::Content::Unknown | record::Content::Unreadable(_) => return None,
            record::Content::Missing => self.settings.limit,
            record::Content::Record(record) => record.limit(),
        };
        let held = record.get().map_or(0, |record| record.holders().len());
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let permits = limit.saturating_sub(held);
        let age = now.saturating_since(record.seen_at());
        Some(Availability {
            permits,
            limit,
            age,
        })
    }

    /// Everything that decides.
    fn situation(&self, now: Instant) -> Situation<'_> {
        Situation {
            now,
            settings: &self.settings,
            record: &self.known.record,
            line: &self.known.line,
            missing: &self.known.missing,
            ours: &self.ours,
            queue: self.callers.queue(),
            step: self.writes.step.as_ref().map(|(step, _)| step),
            listed: self.known.listed,
            is_touched: self.reads.is_touched,
        }
    }

    fn moment(&self) -> Moment {
        self.requests.moment()
    }

    /// How many of other processes wait ahead of our first waiter.
    fn ahead(&self) -> Option<u32> {
        let first = self.situation(self.timed_at).first_waiter()?;
        let rank = self.known.line.rank(first.created);
        u32::try_from(rank).ok()
    }

    /// The others according to Consul's last answer.
    fn seen(&self) -> Option<Seen> {
        if !self.known.record.is_known() {
            return None;
        }
        let record = self.known.record.get();
        let holders = record.into_iter().flat_map(Record::holders);
        let holders = holders.map(|it| Holder::new(it, self.known.missing.value_of(it)));
        Some(Seen {
            holders: holders.collect(),
            limit: Some(record.map_or(self.settings.limit, Record::limit)),
            ahead: self.ahead(),
        })
    }

    /// Whether anything may follow from a read.
    fn needs_reads(&self) -> bool {
        !self.callers.queue().is_empty() || !self.ours.is_empty()
    }

    fn is_record_unreadable(&self) -> bool {
        matches!(self.known.record.content(), record::Content::Unreadable(_))
    }

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
            From::Step(_) => self.take_outcome(now, sent_at, answer),
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
        let company = self.known.line.company_at().map(|at| at + rules::POLL);
        let company = company.filter(|_| !self.callers.queue().is_empty());
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
            company,
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
            self.requests.abort(|from| matches!(from, From::Step(_)));
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
        self.fail_waiting(now, |_| Error::closed());
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
        self.writes.asked_at = now + JUST_AFTER;
        self.settle(now);
    }

    fn release(&mut self, now: Instant, acquire: CommandId) {
        // The clock ends the belief, no matter who looks first.
        self.end_beliefs(now);
        self.take_release(now, acquire);
        self.writes.asked_at = now + JUST_AFTER;
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
