//! How long to wait before another try (L3).
//!
//! The jitter separates those that one event has woken. Without it all would come back together,
//! after each of Consul's elections.

use core::time::Duration;

use crate::defect::{Defect, is_on};

/// Exponential backoff with jitter: each wait is between half of its step and the whole step.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            failures: 0,
        }
    }

    /// Counts a failure and returns the wait after it.
    pub(crate) fn next(&mut self, rng: &mut fastrand::Rng) -> Duration {
        let step = self
            .base
            .saturating_mul(1 << self.failures.min(16))
            .min(self.cap);
        self.failures = self.failures.saturating_add(1);
        if is_on(Defect::RetryWithoutBackoff) {
            return Duration::ZERO;
        }
        jitter(step / 2, step / 2, rng)
    }

    pub(in crate::machine) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// `least`, plus up to `spread`.
pub(crate) fn jitter(least: Duration, spread: Duration, rng: &mut fastrand::Rng) -> Duration {
    let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX - 1);
    least + Duration::from_nanos(rng.u64(0..=nanos))
}

#[cfg(test)]
mod tests {
    use crate::machine::process::reader::backoff::*;

    #[test]
    fn waits_grow_to_the_cap_and_never_below_half_of_a_step() {
        let ms = Duration::from_millis;
        let mut rng = fastrand::Rng::with_seed(1);
        let mut backoff = Backoff::new(ms(100), ms(1_000));
        for step in [100, 200, 400, 800, 1_000, 1_000] {
            let wait = backoff.next(&mut rng);
            assert!(wait >= ms(step / 2) && wait <= ms(step), "{wait:?}");
        }
        for _ in 0..100 {
            assert!(backoff.next(&mut rng) <= ms(1_000));
        }
        backoff.reset();
        assert!(backoff.next(&mut rng) <= ms(100));
    }
}
