//! The lease clock: how long a holder or leader may believe without another answer from Consul (S2).
//!
//! ```text
//!   sent   sent + TTL/16 … TTL/15    sent + TTL/4 … TTL/3    sent + TTL - margin   sent + TTL
//!    |--------------|------------------------|-----------------------|------------------|----…
//!    renewal sent   next renewal, of one     that of one who waits   belief ends        somebody else may hold
//!                   who holds
//! ```
//! A belief counts from the *sending* of the older one of two requests: the last renewal, and the last
//! proof that the majority saw the session (docs/PROTOCOL.md, rule 12). The server's clock starts later.
//! The margin covers clocks whose rates differ by up to a tenth.
//!
//! A session may end before its TTL, with its node. Then its lock delay keeps the place, counted
//! from after the last successful renewal. Consul's lock delays last at most
//! [`SessionOptions::MAX_LOCK_DELAY`]. So a lease is never longer than that, whatever the TTL, even
//! for a session without one.
//!
//! Sources: Consul's documentation of sessions (the TTL is a lower bound: Consul expires a session
//! never before it, but up to twice as late; lock delays last at most 60 s).

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::error::{Lost, RequestError};
use crate::id::SessionId;
use crate::input::SessionOptions;
use crate::subject::Subject;
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) struct Lease {
    /// When the newest answered renewal was sent, or the creation.
    sent_at: Instant,
    /// When the newest proof was sent that the majority saw the session alive, or the creation.
    proved_at: Instant,
    length: Duration,
}

impl Lease {
    /// The lease of a session whose creation was sent at `sent_at`: the majority has seen it. Consul
    /// keeps it, with its lock delay, for at least `length`.
    pub(in crate::machine) fn new(sent_at: Instant, length: Duration) -> Self {
        Self {
            sent_at,
            proved_at: sent_at,
            length: length.min(SessionOptions::MAX_LOCK_DELAY),
        }
    }

    /// A renewal that was sent then was answered.
    pub(in crate::machine) fn renewed(&mut self, sent_at: Instant, length: Duration) {
        self.sent_at = self.sent_at.max(sent_at);
        self.length = length.min(SessionOptions::MAX_LOCK_DELAY);
    }

    /// A read that the majority confirmed, or a write, was sent then, and found a key tied to the
    /// session.
    pub(in crate::machine) fn proved(&mut self, sent_at: Instant) {
        self.proved_at = self.proved_at.max(sent_at);
    }

    /// The newer one of the proofs counts.
    pub(in crate::machine) fn keep_proof(&mut self, before: &Self) {
        self.proved(before.proved_at);
    }

    /// When the newest answered renewal was sent, or the creation.
    pub(in crate::machine) fn renewed_at(&self) -> Instant {
        self.sent_at
    }

    /// Until when Consul keeps the session, as far as its renewals tell: for those who wait.
    pub(in crate::machine) fn kept_until(&self) -> Instant {
        self.sent_at + self.believed_for()
    }

    /// Belief leaves out a tenth of the time, since clocks may differ by as much.
    fn believed_for(&self) -> Duration {
        if is_on(Defect::LeaseMarginGone) {
            return self.length;
        }
        self.length / MARGIN * (MARGIN - 1)
    }

    /// When the belief ends.
    pub(in crate::machine) fn deadline(&self) -> Instant {
        if is_on(Defect::LeaseEndIgnored) {
            return self.sent_at + FOR_EVER;
        }
        let from = if is_on(Defect::RenewalUnconfirmed) {
            self.sent_at
        } else {
            self.sent_at.min(self.proved_at)
        };
        from + self.believed_for()
    }

    /// Its length, including the margin.
    pub(in crate::machine) fn length(&self) -> Duration {
        self.length
    }

    pub(in crate::machine) fn is_valid(&self, now: Instant) -> bool {
        now < self.deadline()
    }

    /// Whether a turn may begin with it: it lasts until a renewal is answered, even if that takes a
    /// third of it.
    pub(in crate::machine) fn is_fresh(&self, now: Instant) -> bool {
        now < self.fresh_until()
    }

    /// Until when a turn may begin with it.
    pub(in crate::machine) fn fresh_until(&self) -> Instant {
        self.sent_at + self.length / 5 * 2
    }

    /// Whether a proof was sent since then.
    pub(in crate::machine) fn is_proved_since(&self, then: Instant) -> bool {
        self.proved_at >= then
    }

    /// Why it is over, for its holder, as far as is known.
    pub(in crate::machine) fn expired(
        &self,
        now: Instant,
        session: SessionId,
        last_failure: Option<&RequestError>,
    ) -> Lost {
        let last_failure = last_failure.map(RequestError::at_face_value).cloned();
        // If it is noticed late, nobody ran the driver in time.
        let is_unattended = now.saturating_since(self.deadline()) > self.length / 16;
        Lost::LeaseExpired {
            session,
            last_failure,
            unsent: is_unattended.then(|| now.saturating_since(self.sent_at)),
            on: Subject::default(),
        }
    }
}

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A tenth of the lease is not relied on.
const MARGIN: u32 = 10;

#[cfg(test)]
mod tests {
    use crate::machine::process::tenancy::lease::*;

    fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn belief_ends_before_the_ttl_does() {
        let sent = Instant::from_origin(s(100));
        let lease = Lease::new(sent, s(15));
        let deadline = sent + Duration::from_millis(13_500);
        assert_eq!(lease.deadline(), deadline);
        assert!(lease.is_valid(deadline - Duration::from_nanos(1)));
        assert!(!lease.is_valid(deadline));
    }

    #[test]
    fn a_turn_begins_with_it_unless_two_fifths_of_it_are_over() {
        let sent = Instant::from_origin(s(100));
        let lease = Lease::new(sent, s(15));
        assert!(lease.is_fresh(sent + Duration::from_millis(5_999)));
        assert!(!lease.is_fresh(sent + s(6)));
    }

    #[test]
    fn no_lease_outlasts_the_longest_lock_delay() {
        for length in [s(60), s(61), s(24 * 3600), Duration::MAX] {
            let lease = Lease::new(Instant::ORIGIN, length);
            assert_eq!(lease.deadline(), Instant::from_origin(s(54)));
        }
    }
}
