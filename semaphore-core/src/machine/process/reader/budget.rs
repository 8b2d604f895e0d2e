//! A limit on how often something is requested (L3).
//!
//! Consul's documentation of blocking queries asks clients for their own rate limit, since a busy
//! key answers each poll at once. A token bucket allows bursts, such as handovers.

use core::time::Duration;

use crate::time::Instant;

/// The limit of reads: 100 a second in the long run, 50 at once.
pub(crate) const READ_INTERVAL: Duration = Duration::from_millis(10);
pub(crate) const READ_BURST: u32 = 50;

/// At most `burst` at once and one per `interval` in the long run, plus credits.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    interval: Duration,
    burst: Duration,
    /// When the bucket will be full again.
    full_at: Instant,
}

impl Budget {
    pub(crate) fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst: interval * burst,
            full_at: Instant::ORIGIN,
        }
    }

    /// When the next one may be sent.
    pub(crate) fn ready_at(&self) -> Instant {
        self.full_at + self.interval - self.burst
    }

    /// The time between two in the long run.
    pub(in crate::machine) fn interval(&self) -> Duration {
        self.interval
    }

    pub(crate) fn take(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::process::reader::budget::*;

    #[test]
    fn after_a_burst_one_goes_per_interval() {
        let ms = Duration::from_millis;
        let mut budget = Budget::new(ms(10), 3);
        let start = Instant::from_origin(ms(1_000));
        for _ in 0..3 {
            assert!(budget.ready_at() <= start);
            budget.take(start);
        }
        assert_eq!(budget.ready_at(), start + ms(10));
    }
}
