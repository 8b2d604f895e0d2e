//! Percentiles of measured times.

use std::time::Duration;

/// Measured times, in order.
#[derive(Clone, Debug, Default)]
pub struct Percentiles(Vec<Duration>);

impl Percentiles {
    /// The smallest time that at least `percent` of the times do not exceed (the nearest rank).
    /// Zero if there are none.
    pub fn at(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

impl FromIterator<Duration> for Percentiles {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Percentiles {
        times.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let hundred = of((1..=100).rev());
        assert_eq!(hundred.at(50), Duration::from_millis(50));
        assert_eq!(hundred.at(99), Duration::from_millis(99));
        assert_eq!(hundred.max(), Duration::from_millis(100));
    }

    #[test]
    fn few_times_have_percentiles_too() {
        assert_eq!(of([7]).at(50), Duration::from_millis(7));
        assert_eq!(of([7]).at(99), Duration::from_millis(7));
        assert_eq!(of([3, 1, 2]).at(50), Duration::from_millis(2));
        assert_eq!(of([]).at(50), Duration::ZERO);
        assert_eq!(of([]).max(), Duration::ZERO);
    }
}
