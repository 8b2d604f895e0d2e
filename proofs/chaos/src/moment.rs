//! The machine's clock, which all its processes share.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Microseconds since the machine started. So the processes can compare their times.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The present.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let part = |number: i64| u64::try_from(number).unwrap_or_default();
        Self(part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000)
    }

    /// `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// `duration` earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl From<Moment> for judge::Moment {
    fn from(moment: Moment) -> Self {
        Self(Duration::from_micros(moment.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", Duration::from_micros(self.0).as_secs_f64())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
