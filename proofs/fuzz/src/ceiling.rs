//! A limit of requests (L3), as a bucket that refills with time.

use std::time::Duration;

use semaphore_core::sans_io::Instant;

/// Allows this many at once, and one more per interval.
pub(crate) struct Ceiling {
    interval: Duration,
    left: u32,
    most: u32,
    /// The time up to which the bucket has been refilled.
    filled_at: Instant,
}

impl Ceiling {
    pub(crate) fn new(most: u32, interval: Duration) -> Self {
        Self {
            interval,
            left: most,
            most,
            filled_at: Instant::ORIGIN,
        }
    }

    /// Counts one request.
    pub(crate) fn take(&mut self, now: Instant) {
        let passed = now.saturating_since(self.filled_at).as_nanos() / self.interval.as_nanos();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(passed).min(self.most);
        self.filled_at = self.filled_at + self.interval.saturating_mul(passed);
        assert!(self.left > 0, "one request too many, at {now}");
        self.left -= 1;
    }
}
