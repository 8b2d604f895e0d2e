//! Rate limits of requests, as `limits.request_limits` sets them on an agent from 1.15 on.

use semaphore_core::adapter::{Instant, Response};

use super::answer;

/// The rate's allowance for so many seconds may be used at once.
const BURST_SECONDS: f64 = 10.0;

/// How many requests a server serves, as `limits.request_limits` with `mode = "enforcing"`. The
/// allowance of ten seconds may be used at once.
///
/// A refused request is not applied, and the answer does not say when to retry. Reads are refused
/// with 429. Requests that change something, including renewals, are refused with 503, since only
/// the leader could serve them. `/v1/status/…` and `/v1/agent/self` are not limited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestLimits {
    /// Reads per second, or `None` for no limit.
    pub read_rate: Option<f64>,
    /// Writes per second, or `None` for no limit.
    pub write_rate: Option<f64>,
}

/// What kind of work a request is for the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// A read. With `stale` any server may answer.
    Read { stale: bool },
    /// A change, which only the leader makes.
    Write,
}

/// Whether the server whose limit it is could make a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    Leader,
    Follower,
}

/// The limits, and how much of each is left.
#[derive(Clone, Debug, Default)]
pub(super) struct Limiter {
    reads: Option<Bucket>,
    writes: Option<Bucket>,
}

impl Limiter {
    pub(super) fn new(now: Instant, limits: RequestLimits) -> Self {
        let bucket = |rate: Option<f64>| rate.map(|rate| Bucket::full(now, rate));
        Self {
            reads: bucket(limits.read_rate),
            writes: bucket(limits.write_rate),
        }
    }

    /// Counts a request against its limit, or refuses it.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        errand: Errand,
        rank: Rank,
    ) -> Result<(), Response> {
        let bucket = match errand {
            Errand::Read { .. } => &mut self.reads,
            Errand::Write => &mut self.writes,
        };
        let is_admitted = bucket.as_mut().is_none_or(|bucket| bucket.take(now));
        match (errand, rank) {
            _ if is_admitted => Ok(()),
            (Errand::Write, Rank::Leader) => Err(answer::text(
                503,
                "rate limit exceeded for operation that can only be performed by the leader, try again later",
            )),
            _ => Err(answer::text(
                429,
                "rate limit exceeded, try again later or against a different server",
            )),
        }
    }
}

/// The unused part of a limit.
#[derive(Clone, Debug)]
struct Bucket {
    rate: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(now: Instant, rate: f64) -> Self {
        let left = rate * BURST_SECONDS;
        Self {
            rate,
            left,
            at: now,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let gained = now.saturating_since(self.at).as_secs_f64() * self.rate;
        self.left = (self.left + gained).min(self.rate * BURST_SECONDS);
        self.at = self.at.max(now);
        let is_enough = self.left >= 1.0;
        if is_enough {
            self.left -= 1.0;
        }
        is_enough
    }
}
