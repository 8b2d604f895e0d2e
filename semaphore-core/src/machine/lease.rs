//! The lease clock: how long a holder may believe without another word from Consul (invariant S2).
//!
//! ```text
//!   sent          sent + TTL/3                  sent + TTL - margin   sent + TTL
//!    |-----------------|---------------------------------|----------------|----…
//!    renewal sent      next renewal due                  belief ends      somebody else may hold
//! ```
//! It counts from the moment when the request was *sent*: the server starts its clock later. The
//! margin absorbs clocks that run at different rates, by up to a tenth.
//!
//! A session may end before its TTL, with the node that it stands on. Then its lock delay keeps the place, from
//! after the last renewal that succeeded on. Consul's lock delays last [`SessionOptions::MAX_LOCK_DELAY`] at
//! most, so that a lease is no longer than that, whatever the TTL, also of a session that has none.

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::input::SessionOptions;
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    sent_at: Instant,
    length: Duration,
}

impl Lease {
    /// Of a session that Consul keeps, with its lock delay, for `length` after `sent_at` at least.
    pub(super) fn new(sent_at: Instant, length: Duration) -> Self {
        let length = length.min(SessionOptions::MAX_LOCK_DELAY);
        Self { sent_at, length }
    }

    /// When belief ends.
    pub(super) fn deadline(&self) -> Instant {
        if is_on(Defect::LeaseEndIgnored) {
            return self.sent_at + FOR_EVER;
        }
        if is_on(Defect::LeaseMarginGone) {
            return self.sent_at + self.length;
        }
        self.sent_at + self.length - self.length / MARGIN
    }

    /// When the next renewal is due.
    pub(super) fn renew_at(&self) -> Instant {
        self.sent_at + self.length / RENEWALS
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        now < self.deadline()
    }
}

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One part in ten of the lease is not relied on.
const MARGIN: u32 = 10;

/// A renewal is due after a third of the lease, so that two more can fail.
const RENEWALS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn belief_ends_before_the_ttl_does() {
        let sent = Instant::from_origin(s(100));
        let lease = Lease::new(sent, s(15));
        assert_eq!(lease.renew_at(), sent + s(5));
        let deadline = sent + Duration::from_millis(13_500);
        assert_eq!(lease.deadline(), deadline);
        assert!(lease.is_valid(deadline - Duration::from_nanos(1)));
        assert!(!lease.is_valid(deadline));
    }

    #[test]
    fn no_lease_outlasts_the_longest_lock_delay() {
        for length in [s(60), s(61), s(24 * 3600), Duration::MAX] {
            let lease = Lease::new(Instant::ORIGIN, length);
            assert_eq!(lease.renew_at(), Instant::from_origin(s(20)));
            assert_eq!(lease.deadline(), Instant::from_origin(s(54)));
        }
    }
}
