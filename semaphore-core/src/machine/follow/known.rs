//! What a follower knows about its leader, and what one listener has not been told yet.
//!
//! A listener is told states, not every change: between two calls only the last one counts. So each
//! listener only needs what it was told last, and nothing accumulates for a slow one.

use crate::error::{Conflict, Error, RequestError};
use crate::id::{FencingToken, Index};
use crate::leader::{Leader, LeaderStatus};
use crate::time::Instant;

/// What a follower learns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeaderEvent {
    /// Somebody leads: the first known leader, another leader, or the same one in a new term.
    Elected(Leader),
    /// The leader has changed its value.
    ValueChanged(Leader),
    /// Nobody leads, or the value that was left has changed.
    Leaderless {
        /// The key's value, or `None` without a key.
        last_value: Option<Vec<u8>>,
    },
    /// Consul can't be asked now, for this reason. The last known state may be outdated. The
    /// follower keeps trying. This is reported once, until it [resumes](Self::Resumed).
    Interrupted(RequestError),
    /// Consul answers again, or a refusal or a foreign key has passed. Changes that happened
    /// meanwhile follow.
    Resumed,
}

/// What is known about an election's leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    status: Option<LeaderStatus>,
    confirmed: Option<Confirmed>,
    /// The index of the last accepted answer.
    index: Index,
    trouble: Option<Trouble>,
    troubles: u64,
}

/// When the answer was requested and received that last confirmed the knowledge.
#[derive(Clone, Copy, Debug)]
struct Confirmed {
    asked_at: Instant,
    answered_at: Instant,
}

/// Why the knowledge may be outdated.
#[derive(Clone, Debug)]
struct Trouble {
    /// Its number, which is unique.
    no: u64,
    /// When it was last met.
    met_at: Instant,
    why: Why,
}

#[derive(Clone, Debug)]
enum Why {
    /// Consul can't be asked now.
    Unreachable(RequestError),
    /// Consul refuses the request.
    Refused(RequestError),
    /// The key is not an election's.
    NotAnElection { key: String, conflict: Conflict },
}

impl Why {
    /// Whether a listener that knows one need not be told the other.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unreachable(_), Self::Unreachable(_)) | (Self::Refused(_), Self::Refused(_)) => {
                true
            }
            (
                Self::NotAnElection { conflict, .. },
                Self::NotAnElection {
                    conflict: other, ..
                },
            ) => conflict == other,
            _ => false,
        }
    }

    fn event(&self) -> Result<LeaderEvent, Error> {
        match self {
            Self::Unreachable(error) => Ok(LeaderEvent::Interrupted(error.clone())),
            Self::Refused(error) => Err(Error::Request(error.clone())),
            Self::NotAnElection { key, conflict } => Err(Error::NotAnElection {
                key: key.clone(),
                conflict: conflict.clone(),
                on: crate::subject::Subject::default(),
            }),
        }
    }
}

impl Known {
    pub(crate) fn status(&self) -> Option<&LeaderStatus> {
        self.status.as_ref()
    }

    /// When the request was sent whose answer last confirmed the knowledge.
    pub(crate) fn asked_at(&self) -> Option<Instant> {
        self.confirmed.map(|it| it.asked_at)
    }

    /// When that answer came.
    pub(crate) fn answered_at(&self) -> Option<Instant> {
        self.confirmed.map(|it| it.answered_at)
    }

    pub(crate) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// When it last learned that it is so: that somebody or nobody leads, or why it can't know.
    pub(crate) fn learned_at(&self) -> Option<Instant> {
        match &self.trouble {
            Some(trouble) => Some(trouble.met_at),
            None => self.answered_at(),
        }
    }

    /// Takes an answer about the leader, with its index.
    pub(super) fn learn(
        &mut self,
        (asked_at, answered_at): (Instant, Instant),
        index: Index,
        mut status: LeaderStatus,
    ) {
        self.confirm(asked_at, answered_at);
        self.trouble = None;
        if let LeaderStatus::Led(leader) = &mut status {
            let former = self.status.as_ref().and_then(LeaderStatus::leader);
            leader.fence = match former.filter(|former| former.is_same_term(leader)) {
                Some(former) => former.fence,
                // A term begins with a write, and its index is higher than that of any earlier
                // answer.
                None => leader
                    .fence
                    .max(FencingToken(self.index.0.saturating_add(1))),
            };
        }
        self.index = index;
        self.status = Some(status);
    }

    /// It is as it was: so said the answer to a request that was sent and answered at these times.
    pub(super) fn confirm(&mut self, asked_at: Instant, answered_at: Instant) {
        self.confirmed = Some(Confirmed {
            asked_at,
            answered_at,
        });
    }

    /// Consul answers, but the answer is in doubt.
    pub(super) fn heard(&mut self) {
        self.trouble
            .take_if(|it| matches!(it.why, Why::Unreachable(_)));
    }

    /// The key has become something else's: so said the answer to a request that was sent and
    /// answered at these times. Its leader is not known to lead any more.
    pub(super) fn conflicts(
        &mut self,
        (asked_at, answered_at): (Instant, Instant),
        index: Index,
        key: String,
        conflict: Conflict,
    ) {
        self.confirm(asked_at, answered_at);
        self.status = None;
        self.index = index;
        self.meet(answered_at, Why::NotAnElection { key, conflict });
    }

    pub(super) fn fails(&mut self, now: Instant, error: &RequestError) {
        let why = if error.is_permanent() {
            Why::Refused(error.clone())
        } else {
            Why::Unreachable(error.at_face_value().clone())
        };
        self.meet(now, why);
    }

    fn meet(&mut self, now: Instant, why: Why) {
        if let Some(trouble) = self.trouble.as_mut().filter(|it| it.why.is_like(&why)) {
            trouble.met_at = now;
            return;
        }
        self.troubles += 1;
        self.trouble = Some(Trouble {
            no: self.troubles,
            met_at: now,
            why,
        });
    }
}

/// What one listener was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    status: Option<LeaderStatus>,
    /// The number of the trouble.
    trouble: Option<u64>,
}

impl Told {
    /// The next event for this listener, if there is one.
    pub(crate) fn next(&mut self, known: &Known) -> Option<Result<LeaderEvent, Error>> {
        if let Some(trouble) = &known.trouble {
            if self.trouble == Some(trouble.no) {
                return None;
            }
            self.trouble = Some(trouble.no);
            if known.status.is_none() {
                self.status = None;
            }
            return Some(trouble.why.event());
        }
        if self.trouble.take().is_some() {
            return Some(Ok(LeaderEvent::Resumed));
        }
        let status = known.status.as_ref()?;
        if self.status.as_ref() == Some(status) {
            return None;
        }
        let former = self.status.replace(status.clone());
        let former = former.as_ref().and_then(LeaderStatus::leader);
        Some(Ok(match status {
            LeaderStatus::Led(leader) if former.is_some_and(|it| it.is_same_term(leader)) => {
                LeaderEvent::ValueChanged(leader.clone())
            }
            LeaderStatus::Led(leader) => LeaderEvent::Elected(leader.clone()),
            LeaderStatus::Leaderless { last_value } => LeaderEvent::Leaderless {
                last_value: last_value.clone(),
            },
        }))
    }

    /// Whether there is one.
    pub(crate) fn is_behind(&self, known: &Known) -> bool {
        self.clone().next(known).is_some()
    }

    /// The last state that this listener was told. `None` if it was taken back.
    pub(crate) fn status(&self) -> Option<&LeaderStatus> {
        self.status.as_ref()
    }

    /// Whether it was told that its knowledge may be outdated.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }
}
