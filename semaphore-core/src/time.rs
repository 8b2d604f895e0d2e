//! A point on a monotonic clock. The core itself reads no clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time, counted from an origin that the [`Runtime`](crate::adapter::Runtime) chooses.
///
/// The core never reads a clock; its driver passes `now` in. Only instants of the same runtime can
/// be compared. The clock must not go backwards, and should run while the machine is suspended, as
/// Consul's does (S2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The instant `elapsed` after the clock's origin.
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of time instead of overflowing.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the origin instead of underflowing.
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_shown_in_seconds_from_the_origin() {
        let at = Instant::from_origin(Duration::from_micros(12_345_678));
        assert_eq!(at.to_string(), "12.346s");
    }
}
