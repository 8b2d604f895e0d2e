//! The lease clock: how long a session certainly lives without another word from Consul
//! (invariant S2).
//!
//! ```text
//!   sent          sent + TTL/3                  sent + TTL - margin   sent + TTL
//!    |-----------------|---------------------------------|----------------|----…
//!    renewal sent      next renewal due                  belief ends      Consul may expire it
//! ```
//! It counts from the moment when the request was *sent*: the server starts its clock later. The
//! margin absorbs clocks that run at different rates, by up to a tenth.

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    sent_at: Instant,
    ttl: Option<Duration>,
}

impl Lease {
    pub(super) const fn new(sent_at: Instant, ttl: Option<Duration>) -> Self {
        Self { sent_at, ttl }
    }

    /// When belief ends; never for a session without a TTL.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if is_on(Defect::LeaseEndIgnored) {
            return None;
        }
        if is_on(Defect::LeaseMarginGone) {
            return self.ttl.map(|ttl| self.sent_at + ttl);
        }
        self.ttl.map(|ttl| self.sent_at + ttl - ttl / MARGIN)
    }

    /// When the next renewal is due.
    pub(super) fn renew_at(&self) -> Option<Instant> {
        self.ttl.map(|ttl| self.sent_at + ttl / RENEWALS)
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        self.deadline().is_none_or(|deadline| now < deadline)
    }
}

/// One part in ten of the TTL is not relied on.
const MARGIN: u32 = 10;

/// A renewal is due after a third of the TTL, so that two more can fail.
const RENEWALS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn belief_ends_before_the_ttl_does() {
        let s = Duration::from_secs;
        let sent = Instant::from_origin(s(100));
        let lease = Lease::new(sent, Some(s(15)));
        assert_eq!(lease.renew_at(), Some(sent + s(5)));
        let deadline = sent + Duration::from_millis(13_500);
        assert_eq!(lease.deadline(), Some(deadline));
        assert!(lease.is_valid(deadline - Duration::from_nanos(1)));
        assert!(!lease.is_valid(deadline));
    }

    #[test]
    fn a_session_without_a_ttl_has_no_deadline() {
        let lease = Lease::new(Instant::ORIGIN, None);
        assert_eq!(lease.deadline(), None);
        assert!(lease.is_valid(Instant::from_origin(Duration::MAX)));
    }
}
