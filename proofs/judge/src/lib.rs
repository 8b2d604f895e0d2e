//! What was believed and reported in a run, and one judge of it.
//!
//! ```text
//!  simulation ── after each step: what Consul shows, who believes ──┐
//!                                                                   ├─▶ Event, one after the other ─▶ Judge
//!  chaos ─────── afterwards: the merged logs of all parties ────────┘                          Ok, or Violation
//! ```
//! The judge gets one [`Event`] after the other, each with its moment, and says whether it breaks a
//! promise. Then it continues. It does no I/O and knows no clock, so it can also judge made-up
//! runs.
//!
//! # Moments that are not known exactly
//! The simulator knows each moment. Chaos knows that something came after one line of a log and
//! before another. So events only have what is certain:
//! - A belief has the time in which it is certain: from just before its holder asked and was told
//!   that it holds, until the first moment at which it may have been over. With less information
//!   the judge finds less, but never accuses falsely.
//! - A lock delay ends at the earliest possible moment. An acquisition has a moment by which it has
//!   certainly happened.
//! - A grant has the write that admitted it, all writes that may have, or the moments between which
//!   it came. Two grants are compared if it is certain which of them came first.
//! - A loss has the longest time in which Consul was certainly within reach.
//!
//! # What is judged where
//! Simulation and chaos have separate judges where they see different things, and where a common
//! rule would be weaker than each of them.
//!
//! | promise | here | only in simulation | only in chaos |
//! |---|---|---|---|
//! | S1, never more than the limit believe | [`Event::Begins`], [`Event::Ends`] | that a holder that lost it to others learns of it in time: it takes the true state of Consul to know what an answer shows | |
//! | S1 of elections, nobody acquires a key during a lock delay | [`Event::Delayed`], [`Event::Acquired`] | | |
//! | S2, a belief ends in time | [`Event::Believed`] | when the session ended by its TTL, on the true clock | when the lease ends, and how long it may be: logs know no more |
//! | S5, tokens rise | [`Event::Granted`] | which writes may have admitted a grant: what was written is seen there alone | |
//! | L1 of discovery, leaders are seen in their order and in time | [`Event::Sees`], [`Event::Shows`], [`Event::CaughtUp`] | within which time | that each leader is seen with its own words: there values say whose they are |
//! | L4, what a loss is justified by | [`Event::Lost`] | who took something away, when indexes were counted again, until when trouble can be felt | when a quorum was within reach, by what witnesses saw and what was done |
//! | L4, nothing fails that is to be tried again | | by what is to be expected of a world's deeds | by how it was asked for |
//! | Queue | until when a waiter may be passed: [`queue`] | who knew of whom, and whose callers wait (exploration, too) | what a reader of the prefix saw between two moments, and which slots were certainly taken |
//! | S3, S4, L3 | | what Consul was asked for and what it has done is seen there alone | |
//! | L1, who waits gets in | | within a bound that follows from the world, in quiet | every acquisition ends, and everything can be had at last: how long a loaded machine takes is bounded by nothing |
//! | L2, nothing is left | | after each step, with what each writer could know | when all was over |

mod delays;
mod discovery;
mod event;
mod leases;
mod limit;
mod losses;
pub mod queue;
mod record;
mod tokens;

pub use event::{Admission, Event, Follower, Hold, Lease, Moment, Place, Sight, Write};
pub use record::{Record, Spelling};

use std::fmt;

use crate::delays::Delays;
use crate::discovery::Discovery;
use crate::limit::Limits;
use crate::tokens::{Grant, Tokens};

/// A promise that this crate judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// S1: never more than the limit believe that they hold.
    Limit,
    /// S1, of elections: nobody acquires a key during a lock delay.
    LockDelay,
    /// S2: a belief ends in time.
    Lease,
    /// S5: fencing tokens rise.
    Fencing,
    /// A follower sees an election's leaders in order, and in time.
    Discovery,
    /// L4: a transient failure causes no loss.
    TransientFailures,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise was broken.
    pub promise: Promise,
    /// The place.
    pub place: Place,
    /// The moment of the event that shows it.
    pub at: Moment,
    /// A description.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.at, self.what)
    }
}

/// The place where a promise is broken, and a description.
type Wrong = (Place, String);

/// The state of one history so far.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    limits: Limits,
    delays: Delays,
    tokens: Tokens,
    discovery: Discovery,
}

impl Judge {
    /// A judge that has heard nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges the next event. Events come in the order of their moments. At the same moment the
    /// ends of beliefs come first, since a belief does not include its last moment.
    ///
    /// # Errors
    /// [`Violation`] if this event breaks a promise.
    pub fn hear(&mut self, at: Moment, event: &Event) -> Result<(), Violation> {
        let verdict = self.judge(at, event);
        verdict.map_err(|(place, what)| Violation {
            promise: event.promise(),
            place,
            at,
            what,
        })
    }

    fn judge(&mut self, at: Moment, event: &Event) -> Result<(), Wrong> {
        match event {
            Event::Allowed { place, permits } => return self.limits.allow(*place, *permits),
            Event::Begins {
                hold,
                place,
                permits,
                name,
            } => return self.limits.begin(*hold, *place, *permits, name),
            Event::Ends { hold } => self.limits.end(*hold),
            Event::Believed {
                place,
                until,
                longest,
                name,
            } => return leases::believe(at, (*place, name), *until, *longest),
            Event::Delayed {
                place,
                until,
                after,
            } => self.delays.begin(*place, *until, after),
            Event::Undelayed => self.delays.forget(),
            Event::Acquired { place, name } => return self.delays.acquire(at, *place, name),
            Event::Granted {
                place,
                permits,
                token,
                admitted,
                name,
            } => {
                let limit = self.limits.allowed(*place);
                let grant = |admission| Grant {
                    admission,
                    token: *token,
                    permits: *permits,
                    name: name.clone(),
                };
                return self.tokens.grant((*place, limit), admitted, grant);
            }
            Event::Lost {
                place,
                was_taken,
                lease,
                name,
            } => return losses::lose(*place, *was_taken, *lease, name),
            Event::Shows { place, sight } => self.discovery.show(at, *place, sight),
            Event::Sees {
                follower,
                place,
                sight,
                name,
            } => return self.discovery.see(*follower, *place, sight, name),
            Event::Leaves { follower } => self.discovery.leave(*follower),
            Event::CaughtUp { follower, within } => {
                return self.discovery.catch_up(at, *follower, *within);
            }
        }
        Ok(())
    }

    /// The most permits that were believed in at the same time.
    pub fn most_at_once(&self, place: Place) -> u32 {
        self.limits.most_at_once(place)
    }
}

impl Event {
    /// The promise that the event may break.
    fn promise(&self) -> Promise {
        match self {
            Self::Allowed { .. } | Self::Begins { .. } | Self::Ends { .. } => Promise::Limit,
            Self::Believed { .. } => Promise::Lease,
            Self::Delayed { .. } | Self::Undelayed | Self::Acquired { .. } => Promise::LockDelay,
            Self::Granted { .. } => Promise::Fencing,
            Self::Lost { .. } => Promise::TransientFailures,
            Self::Shows { .. }
            | Self::Sees { .. }
            | Self::Leaves { .. }
            | Self::CaughtUp { .. } => Promise::Discovery,
        }
    }
}
