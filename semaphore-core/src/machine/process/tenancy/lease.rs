//! The lease clock: how long a holder may believe without another answer from Consul (S2).
//!
//! ```text
//!   sent   sent + TTL/16 … TTL/12    sent + TTL/4 … TTL/3    sent + TTL - margin   sent + TTL
//!    |--------------|------------------------|-----------------------|------------------|----…
//!    renewal sent   next renewal due         that of one who waits   belief ends        somebody else may hold
//!                   of one who holds
//! ```
//! The time of the next renewal is drawn again for each, so that leases that began together are not
//! renewed together forever. A lease counts from the *sending* of its request: the server's clock
//! starts later. The margin covers clocks whose rates differ by up to a tenth.
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
use crate::machine::process::reader::backoff::jitter;
use crate::subject::Subject;
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) struct Lease {
    sent_at: Instant,
    /// When the newest proof was sent that the majority saw the session alive, if renewals count
    /// only beside one.
    proved_at: Option<Instant>,
    length: Duration,
    renew_after: Duration,
}

impl Lease {
    /// The lease of a session that Consul keeps, with its lock delay, for at least `length` after
    /// `sent_at`.
    pub(in crate::machine) fn new(
        sent_at: Instant,
        length: Duration,
        rng: &mut fastrand::Rng,
    ) -> Self {
        let length = length.min(SessionOptions::MAX_LOCK_DELAY);
        let renew_after = jitter(length / EARLIEST, length / SPREAD, rng);
        Self {
            sent_at,
            proved_at: None,
            length,
            renew_after,
        }
    }

    /// The lease of a session whose creation was sent at `sent_at`: the majority has seen it.
    /// Renewals count beside proofs from then on (docs/PROTOCOL.md, rule 12).
    pub(in crate::machine) fn proven(sent_at: Instant, length: Duration) -> Self {
        Self {
            sent_at,
            proved_at: Some(sent_at),
            length: length.min(SessionOptions::MAX_LOCK_DELAY),
            renew_after: Duration::ZERO,
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
        if let Some(proved_at) = &mut self.proved_at {
            *proved_at = (*proved_at).max(sent_at);
        }
    }

    /// The newer one of the proofs counts.
    pub(in crate::machine) fn keep_proof(&mut self, before: &Self) {
        if let Some(proved_at) = before.proved_at {
            self.proved(proved_at);
        }
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

    /// When the request was sent from which it counts.
    pub(in crate::machine) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// When the belief ends.
    pub(in crate::machine) fn deadline(&self) -> Instant {
        if is_on(Defect::LeaseEndIgnored) {
            return self.sent_at + FOR_EVER;
        }
        let proved_at = self
            .proved_at
            .filter(|_| !is_on(Defect::RenewalUnconfirmed));
        let proved_at = proved_at.unwrap_or(self.sent_at);
        self.sent_at.min(proved_at) + self.believed_for()
    }

    /// Its length, including the margin.
    pub(in crate::machine) fn length(&self) -> Duration {
        self.length
    }

    /// The time from its renewal to the next one.
    pub(in crate::machine) fn renew_after(&self) -> Duration {
        self.renew_after
    }

    /// The same while somebody holds or leads with it.
    pub(in crate::machine) fn renew_early_after(&self) -> Duration {
        self.renew_after / OFTENER
    }

    /// Whether it was requested later than the other one.
    pub(in crate::machine) fn is_after(&self, other: &Self) -> bool {
        self.sent_at > other.sent_at
    }

    pub(in crate::machine) fn is_valid(&self, now: Instant) -> bool {
        now < self.deadline()
    }

    /// Whether a turn may begin with it: it lasts until a renewal is answered, even if that takes a
    /// third of it.
    pub(in crate::machine) fn is_fresh(&self, now: Instant) -> bool {
        now <= self.sent_at + self.length / 5 * 2
    }

    /// Whether a proof was sent since then, if proofs count.
    pub(in crate::machine) fn is_proved_since(&self, then: Instant) -> bool {
        self.proved_at.is_none_or(|at| at >= then)
    }

    /// Why it is over, for its holder, as far as is known. `last_sent` is when the last renewal was
    /// sent, if that is known.
    pub(in crate::machine) fn expired(
        &self,
        now: Instant,
        session: SessionId,
        last_failure: Option<&RequestError>,
        last_sent: Option<Instant>,
    ) -> Lost {
        let last_failure = last_failure.map(RequestError::at_face_value).cloned();
        // If renewals fail, others are still sent. If it is noticed late, nobody ran the driver in
        // time.
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

/// A tenth of the lease is not relied on.
const MARGIN: u32 = 10;

/// A renewal is due after a quarter of the lease at the earliest, and a twelfth later, which is a
/// third, at the latest. So two more can fail.
const EARLIEST: u32 = 4;
const SPREAD: u32 = 12;

/// A held lease is renewed this many times as often: after a sixteenth to a twelfth of it. So
/// whenever an outage begins, 9/10 - 1/12 of the TTL are left, minus the time of answers that are
/// waited for: PROMISES has three quarters. If messages are lost, the next renewal after them may be
/// as far away: PROMISES has two thirds.
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
    fn a_turn_begins_with_it_unless_more_than_two_fifths_of_it_are_over() {
        let sent = Instant::from_origin(s(100));
        let lease = Lease::new(sent, s(15), &mut fastrand::Rng::with_seed(1));
        assert!(lease.is_fresh(sent + s(6)));
        assert!(!lease.is_fresh(sent + Duration::from_millis(6001)));
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
