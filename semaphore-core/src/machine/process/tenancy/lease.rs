//! The lease clock: how long a holder may believe without another word from Consul (invariant S2).
//!
//! ```text
//!   sent   sent + TTL/16 … TTL/12    sent + TTL/4 … TTL/3    sent + TTL - margin   sent + TTL
//!    |--------------|------------------------|-----------------------|------------------|----…
//!    renewal sent   next renewal due         that of one who waits   belief ends        somebody else may hold
//!                   of one who holds
//! ```
//! When the next renewal is due is drawn again for each, so that many leases that began together are not renewed
//! together for ever.
//! It counts from the moment when the request was *sent*: the server starts its clock later. The
//! margin absorbs clocks that run at different rates, by up to a tenth.
//!
//! A session may end before its TTL, with the node that it stands on. Then its lock delay keeps the place, from
//! after the last renewal that succeeded on. Consul's lock delays last [`SessionOptions::MAX_LOCK_DELAY`] at
//! most, so that a lease is no longer than that, whatever the TTL, also of a session that has none.
//!
//! Sources: Consul's documentation of sessions (the TTL is a lower bound: Consul may expire a session later, up to twice
//! the TTL, and never before; lock delays last 60 s at most).

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::error::{Lost, RequestError};
use crate::id::SessionId;
use crate::input::SessionOptions;
use crate::machine::process::reader::backoff::jitter;
use crate::subject::Subject;
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) struct Lease {
    sent_at: Instant,
    length: Duration,
    renew_after: Duration,
}

impl Lease {
    /// Of a session that Consul keeps, with its lock delay, for `length` after `sent_at` at least.
    pub(in crate::machine) fn new(
        sent_at: Instant,
        length: Duration,
        rng: &mut fastrand::Rng,
    ) -> Self {
        let length = length.min(SessionOptions::MAX_LOCK_DELAY);
        let renew_after = jitter(length / EARLIEST, length / SPREAD, rng);
        Self {
            sent_at,
            length,
            renew_after,
        }
    }

    /// When the request was sent from which on it counts.
    pub(in crate::machine) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// When belief ends.
    pub(in crate::machine) fn deadline(&self) -> Instant {
        if is_on(Defect::LeaseEndIgnored) {
            return self.sent_at + FOR_EVER;
        }
        if is_on(Defect::LeaseMarginGone) {
            return self.sent_at + self.length;
        }
        self.sent_at + self.length - self.length / MARGIN
    }

    /// How long it lasts from then on, the margin included.
    pub(in crate::machine) fn length(&self) -> Duration {
        self.length
    }

    /// How long after the renewal that it is by the next one is due.
    pub(in crate::machine) fn renew_after(&self) -> Duration {
        self.renew_after
    }

    /// The same while somebody holds or leads by it.
    pub(in crate::machine) fn renew_early_after(&self) -> Duration {
        self.renew_after / OFTENER
    }

    /// Whether it was asked for later than the other one.
    pub(in crate::machine) fn is_after(&self, other: &Self) -> bool {
        self.sent_at > other.sent_at
    }

    pub(in crate::machine) fn is_valid(&self, now: Instant) -> bool {
        now < self.deadline()
    }

    /// What a holder is told when it is over: why, as far as is known. `last_sent` is when the last renewal was sent, where
    /// that is known.
    pub(in crate::machine) fn expired(
        &self,
        now: Instant,
        session: SessionId,
        last_failure: Option<&RequestError>,
        last_sent: Option<Instant>,
    ) -> Lost {
        let last_failure = last_failure.map(RequestError::at_face_value).cloned();
        // Where renewals fail, others are sent all the time. One that is told late was told by nobody who runs in time.
        let is_unattended = match last_sent {
            Some(sent) => now.saturating_since(sent) > self.length / EARLIEST,
            None => now.saturating_since(self.deadline()) > self.length / EARLIEST / OFTENER,
        };
        let last_sent = last_sent.unwrap_or(self.sent_at);
        Lost::LeaseExpired {
            session,
            last_failure,
            unsent: is_unattended.then(|| now.saturating_since(last_sent)),
            on: Subject::default(),
        }
    }
}

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One part in ten of the lease is not relied on.
const MARGIN: u32 = 10;

/// A renewal is due after a quarter of the lease at the earliest, and a twelfth later, which is a third, at the latest, so
/// that two more can fail.
const EARLIEST: u32 = 4;
const SPREAD: u32 = 12;

/// So many times as often is one renewed that is held: after a sixteenth to a twelfth of the lease. Whenever an outage begins,
/// 9/10 - 1/12 of it are left, less the time that an answer takes: more than 12 s of 15.
const OFTENER: u32 = 4;

#[cfg(test)]
mod tests {
    use crate::machine::process::tenancy::lease::*;

    fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn belief_ends_before_the_ttl_does() {
        let sent = Instant::from_origin(s(100));
        let lease = Lease::new(sent, s(15), &mut fastrand::Rng::with_seed(1));
        let deadline = sent + Duration::from_millis(13_500);
        assert_eq!(lease.deadline(), deadline);
        assert!(lease.is_valid(deadline - Duration::from_nanos(1)));
        assert!(!lease.is_valid(deadline));
    }

    #[test]
    fn many_leases_that_began_together_are_renewed_one_after_the_other() {
        let mut rng = fastrand::Rng::with_seed(1);
        let sent = Instant::from_origin(s(100));
        let mut due: Vec<_> = (0..1000)
            .map(|_| sent + Lease::new(sent, s(60), &mut rng).renew_after())
            .collect();
        due.sort();
        assert!(due[0] >= sent + s(15) && due[999] <= sent + s(20));
        let within = |from: Instant| {
            let tenth = from..from + Duration::from_millis(500);
            due.iter().filter(|at| tenth.contains(at)).count()
        };
        let most = due.iter().map(|from| within(*from)).max();
        assert!(most < Some(200), "{most:?} of a thousand in half a second");
    }

    #[test]
    fn no_lease_outlasts_the_longest_lock_delay() {
        for length in [s(60), s(61), s(24 * 3600), Duration::MAX] {
            let lease = Lease::new(Instant::ORIGIN, length, &mut fastrand::Rng::with_seed(1));
            assert!(lease.renew_after() <= s(20));
            assert!(lease.renew_early_after() <= s(5));
            assert_eq!(lease.deadline(), Instant::from_origin(s(54)));
        }
    }
}
