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
//! | `step`, `outcome`, `capacity` | one transaction; what its answer means; how much fits into it |
//! | `reads` | what is read, and whom the poll watches |
//! | `send` | what is sent next, and in which order |
//! | `answers`, `learn` | what reads, polls and proofs say; what is known then |
//! | `sessions` | what the sessions' pool says |
//! | `ours` | how many of ours contend, and who is forgotten |
//! | `turns` | the callers' side: asking, giving back, losing, failing |
//! | `settings`, `availability` | what it contends for; how many slots were free |
//! | `contract` | how its owner drives it, and when to come back |

mod answers;
mod availability;
mod capacity;
mod contender;
mod contenders;
mod contract;
mod learn;
mod line;
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
use self::contender::ContenderNo;
use self::contenders::Contenders;
use self::line::Line;
use self::missing::Missing;
use self::reads::Reads;
use self::record::KnownRecord;
use self::rules::Situation;
pub use self::settings::Settings;
use self::step::Step;
use crate::error::{Error, Holder, Seen};
use crate::id::{CommandId, FencingToken};
use crate::input::InvalidInput;
use crate::machine::callers::{Callers, Patience};
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::backoff::jitter;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::requests::{Requests, Sender};
use crate::machine::sessions::lone::Lone;
use crate::record::Record;
use crate::sequencer::Sequencer;
use crate::time::Instant;

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
    /// When the newest list or tree was sent.
    shown: Moment,
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
}

/// Which part of a participant sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Step,
    Read,
    Poll,
}

impl Sender for From {
    fn polls(&self) -> bool {
        matches!(self, Self::Poll)
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
        let lone = Lone::new(&settings.session, settings.place(), seed);
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
                shown: Moment::START,
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
    /// after [`Machine::close`](crate::machine::contract::Machine::close). Then nothing is sent.
    pub fn acquire(
        &mut self,
        now: Instant,
        permits: u32,
        deadline: Option<Instant>,
    ) -> Result<CommandId, Error> {
        let patience = deadline.map_or(Patience::Unlimited, Patience::Until);
        self.enqueue(now, permits, patience)
    }

    /// Takes `permits` slots if they are free now. Answered by [`Event::NotAvailable`](crate::machine::contract::Event::NotAvailable) if they are
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
}
