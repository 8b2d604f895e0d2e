//! The stops of time, and the distance of times.
//!
//! Actions take no time. Time stands still while something can be done. Then it moves to the next
//! multiple of the tick at which something is due.

use core::time::Duration;

use semaphore_core::sans_io::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: u64,
    tick: u64,
}

impl Clock {
    pub(crate) fn new(now: Instant, tick: Duration) -> Self {
        Self {
            now: nanos(now.since_origin()),
            tick: nanos(tick).max(1),
        }
    }

    /// When time stops for something that is due then.
    pub(crate) fn stop(self, due: Instant) -> Instant {
        let due = nanos(due.since_origin());
        Instant::from_origin(Duration::from_nanos(self.ticks(due) * self.tick))
    }

    pub(crate) fn is_past(self, at: u64) -> bool {
        at <= self.now
    }

    /// How many ticks a time is ahead.
    pub(crate) fn until(self, at: u64) -> u64 {
        self.ticks(at).saturating_sub(self.now / self.tick)
    }

    /// How many ticks ago a time was, up to the longest distance that matters.
    pub(crate) fn since(self, at: u64, longest: Duration) -> u64 {
        let longest = nanos(longest).div_ceil(self.tick);
        (self.now / self.tick - at / self.tick).min(longest)
    }

    fn ticks(self, at: u64) -> u64 {
        at.div_ceil(self.tick)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_between_two_stops_is_done_at_the_later_one() {
        let at = |nanos| Instant::from_origin(Duration::from_nanos(nanos));
        let clock = Clock::new(at(5_000), Duration::from_micros(1));
        for due in [7_001, 7_300, 8_000] {
            assert_eq!(clock.stop(at(due)), at(8_000));
            assert_eq!(clock.until(due), 3);
        }
        assert_eq!(clock.since(3_000, Duration::from_secs(1)), 2);
    }
}
