//! What a machine waits for, besides answers: the table of its timers.
//!
//! No machine has a clock. Its driver asks when to come back, and gets the earliest time in this
//! table. What is done then is each room's matter. The rows say which rooms wait, and why they need
//! the clock. A follower has only [`Timer::Poll`], and needs no table.

use crate::time::Instant;

/// Why something is due. If two are due at the same time, the first row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) enum Timer {
    /// The belief in a term ends, because no renewal came in time (`tenancy::lease`). Or
    /// a caller that gave one back is told that it takes longer (`tenancy::departure`).
    ///
    /// Source: Consul's documentation of sessions: a TTL is a lower bound, and after it anybody may
    /// hold (S2).
    End,
    /// A caller's timeout is over (`callers::queue`). No answer need come for that.
    Caller,
    /// The next request of a session: a renewal, or another attempt after a pause
    /// (`tenancy::session`).
    ///
    /// Source: Consul's documentation of sessions: a client that does not renew within the TTL
    /// loses the session. docs/CONSUL.md, "Limits and timeouts": after a refusal by a rate limit,
    /// retries need growing pauses.
    Request,
    /// A session may be requested again, after creations whose answers were lost
    /// (`tenancy::orphans`). Each may have created one that lives until its TTL.
    Creation,
    /// Another contender or candidacy may come, after one that could not continue (`Pause`).
    /// Without the pause, a session that ends at once would be followed by another without end.
    Respawn,
    /// The next write of an election's key (`candidacy::pace`). It comes after a failure, or after a
    /// refusal because of a lock delay.
    ///
    /// Source: Consul's guide to leader elections: a lock delay refuses attempts, and no event
    /// tells of its end.
    Write,
    /// The next poll, if one is wanted and the budget allows it (`reader::poller`).
    ///
    /// Source: Consul's documentation of blocking queries: clients must limit their rate.
    Poll,
    /// A plain read that the leader confirms, if polls can't tell (`election::candidacy`).
    ///
    /// Source: Consul's documentation of consistency modes.
    Read,
    /// Kept sessions without a next turn are no longer needed (`election::between`).
    Spares,
    /// The lease of a hold ends soon: observers are told (`notice`).
    Warning,
}

/// The earliest timer. What was already due when timers were last handled has been done, or waits
/// for an answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::machine) struct Timers {
    looked_at: Instant,
    next: Option<(Instant, Timer)>,
}

impl Timers {
    pub(in crate::machine) const fn after(looked_at: Instant) -> Self {
        Self {
            looked_at,
            next: None,
        }
    }

    /// Something is due at this time, if at all.
    #[must_use]
    pub(in crate::machine) fn with(self, timer: Timer, due: Option<Instant>) -> Self {
        let due = due.filter(|at| *at > self.looked_at).map(|at| (at, timer));
        Self {
            next: self.next.into_iter().chain(due).min(),
            ..self
        }
    }

    /// All of these.
    #[must_use]
    pub(in crate::machine) fn with_all(
        self,
        timers: impl IntoIterator<Item = (Timer, Option<Instant>)>,
    ) -> Self {
        let all = timers.into_iter();
        all.fold(self, |all, (timer, due)| all.with(timer, due))
    }

    /// What is due next, and when.
    #[cfg(test)]
    pub(in crate::machine) fn next(self) -> Option<(Instant, Timer)> {
        self.next
    }

    /// When to come back.
    pub(in crate::machine) fn timeout(self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    #[test]
    fn the_first_that_is_still_to_come_is_told() {
        let timers = Timers::after(at(10))
            .with(Timer::Poll, Some(at(30)))
            .with(Timer::Write, Some(at(20)))
            .with(Timer::Caller, Some(at(10)))
            .with(Timer::Read, None);
        assert_eq!(timers.next(), Some((at(20), Timer::Write)));
        let at_once = timers.with(Timer::End, Some(at(20)));
        assert_eq!(
            at_once.next(),
            Some((at(20), Timer::End)),
            "what ends belief comes first"
        );
        assert_eq!(Timers::after(at(10)).timeout(), None);
    }
}
