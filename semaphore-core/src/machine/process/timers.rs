//! What a machine waits for, besides answers: the table of its timers.
//!
//! No machine has a clock. Its driver asks when to come back, and gets the earliest time in this
//! table. What is done then is each room's matter. The rows say which rooms wait, and why they need
//! the clock. A follower has only [`Timer::Poll`], and needs no table.

use crate::time::Instant;

/// Why something is due. If two are due at the same time, the first row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) enum Timer {
    /// The belief in a slot or a term ends, because no renewal came in time (`tenancy::lease`). Or
    /// a caller that gave one back is told that it takes longer (`tenancy::departure`). Or nothing
    /// that was given up can come late any more (`semaphore::key`).
    ///
    /// Source: Consul's documentation of sessions: a TTL is a lower bound, and after it anybody may
    /// hold (S2).
    End,
    /// A caller's timeout is over (`callers::queue`). No answer need come for that.
    Caller,
    /// The next request of a session or a contender's key: a renewal, or another attempt after a
    /// pause (`tenancy::session`, `semaphore::key`).
    ///
    /// Source: Consul's documentation of sessions: a client that does not renew within the TTL
    /// loses the session. docs/CONSUL.md, "Limits and timeouts": after a refusal by a rate limit,
    /// retries need growing pauses.
    Request,
    /// Many sessions are asked about together (`tenancy::confirmations`): what waits for it is
    /// gathered for a moment.
    Confirmation,
    /// A session may be requested again, after creations whose answers were lost
    /// (`tenancy::orphans`). Each may have created one that lives until its TTL.
    Creation,
    /// Another contender or candidacy may come, after one that could not continue (`Pause`).
    /// Without the pause, a session that ends at once would be followed by another without end.
    Respawn,
    /// The next write of the record or of an election's key (`semaphore::ledger`,
    /// `candidacy::pace`). It comes after a failure, after a refusal because of the record's index
    /// or a lock delay, or when a free slot was left long enough to those ahead.
    ///
    /// Source: Consul's guide to leader elections: a lock delay refuses attempts, and no event
    /// tells of its end.
    Write,
    /// The next poll, if one is wanted and the budget allows it (`reader::poller`,
    /// `semaphore::outlook`). Or the poll under way may be given up for another one.
    ///
    /// Source: Consul's documentation of blocking queries: clients must limit their rate.
    Poll,
    /// A plain read that the leader confirms, if polls can't tell (`semaphore::refresh`,
    /// `election::candidacy`).
    ///
    /// Source: Consul's documentation of consistency modes.
    Read,
    /// The first read has taken longer than a nearby agent needs: newcomers don't wait for it any
    /// more.
    FirstView,
    /// A holder without a key is checked (`semaphore::vanished`): nothing changes in Consul when
    /// its lock delay ends.
    Question,
    /// The lock delay of such a holder is over, by our clock.
    LockDelay,
    /// Kept sessions without a next turn are no longer needed (`semaphore::spare`,
    /// `election::between`).
    Spares,
    /// The lease of a hold ends soon: observers are told (`notice`).
    Warning,
    /// What was left behind has rested after a failure (`tenancy::departure`).
    Rest,
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

    /// Nothing is done before this time.
    #[must_use]
    pub(in crate::machine) fn resting_until(self, rest: Option<Instant>) -> Self {
        let all = self.with(Timer::Rest, rest);
        let next = all.next.map(|(at, timer)| match rest {
            Some(rest) if at < rest => (rest, Timer::Rest),
            _ => (at, timer),
        });
        Self { next, ..all }
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

    #[test]
    fn whoever_rests_does_nothing_before_its_end() {
        let timers = Timers::after(at(10)).with(Timer::Request, Some(at(20)));
        let rests = |until| timers.resting_until(Some(at(until))).next();
        assert_eq!(rests(30), Some((at(30), Timer::Rest)));
        assert_eq!(
            rests(15),
            Some((at(15), Timer::Rest)),
            "others wait for it, too"
        );
        assert_eq!(rests(5), Some((at(20), Timer::Request)));
        assert_eq!(timers.resting_until(None).timeout(), Some(at(20)));
        let only_rest = Timers::after(at(10)).resting_until(Some(at(30)));
        assert_eq!(only_rest.timeout(), Some(at(30)));
    }
}
