//! When time stops, and how far away a time is.
//!
//! Every action takes a nanosecond, so that no two happen at once. Whatever is due is done when time
//! stops next: a little after a multiple of the tick, by as much as the actions so far have taken. So
//! all that was started at one stop and takes whole ticks is due at one later stop, whatever the
//! order of the actions was.

use core::time::Duration;

use semaphore_core::Instant;

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

    /// When time stops for what is due then.
    pub(crate) fn stop(self, due: Instant) -> Instant {
        let due = nanos(due.since_origin());
        let stop = self.ticks(due) * self.tick + self.lag() + 1;
        Instant::from_origin(Duration::from_nanos(stop))
    }

    pub(crate) fn is_past(self, at: u64) -> bool {
        at <= self.now
    }

    /// How many ticks a time is ahead.
    pub(crate) fn until(self, at: u64) -> u64 {
        self.ticks(at).saturating_sub(self.now / self.tick)
    }

    /// How many ticks ago a time was, up to the longest time that a machine measures from a past
    /// one: the TTL, and as long a poll.
    pub(crate) fn since(self, at: u64) -> u64 {
        let longest = LONGEST.div_ceil(self.tick);
        (self.now / self.tick - at / self.tick).min(longest)
    }

    fn ticks(self, at: u64) -> u64 {
        let is_whole = at % self.tick <= self.lag();
        at / self.tick + u64::from(!is_whole)
    }

    /// What the actions so far have taken.
    fn lag(self) -> u64 {
        self.now % self.tick
    }
}

const LONGEST: u64 = 15_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_whole_ticks_is_due_at_one_stop_whatever_came_before_it() {
        let at = |nanos| Instant::from_origin(Duration::from_nanos(nanos));
        let tick = Duration::from_micros(1);
        let clock = Clock::new(at(5_007), tick);
        for started in 5_000..=5_007 {
            assert_eq!(clock.stop(at(started + 3_000)), at(8_008));
            assert_eq!(clock.until(started + 3_000), 3);
            assert_eq!(clock.since(started - 2_000), 2);
        }
        assert_eq!(clock.stop(at(8_300)), at(9_008), "in between");
        assert_eq!(clock.until(8_300), 4);
    }
}
