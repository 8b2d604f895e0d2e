//! When the next write of the key is due (L3).
//!
//! | after | it waits |
//! |---|---|
//! | a refusal, when a lock delay may be on | half a second to a whole one |
//! | a refusal that somebody else's acquisition explains, seen meanwhile or later | not |
//! | an attempt that came too late, since the key has changed under it | not, the first time; else as after a refusal |
//! | a failure | a growing time |
//!
//! So there are two attempts a second in the long run, plus one for each acquisition by somebody
//! else.
//!
//! Source: Consul's guide to leader elections asks for a wait before the next attempt. A lock delay
//! refuses attempts, and no event tells of its end.

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::machine::process::reader::backoff::{Backoff, jitter};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    wait: Wait,
    backoff: Backoff,
    /// Whether somebody else has acquired the key since the last write.
    is_explained: bool,
    /// Whether a late attempt was already repeated at once, and nobody has led since.
    has_repeated: bool,
}

/// The reason for waiting with the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    /// A lock delay may run.
    LockDelay {
        until: Instant,
    },
    /// A write has failed.
    Failure {
        until: Instant,
    },
}

impl Pace {
    pub(super) fn new(cap: Duration) -> Self {
        Self {
            wait: Wait::Nothing,
            backoff: Backoff::new(Duration::from_millis(100), cap),
            is_explained: false,
            has_repeated: false,
        }
    }

    /// When the next write is due, or the origin for "at once".
    pub(super) fn due(&self) -> Instant {
        match self.wait {
            Wait::Nothing => Instant::ORIGIN,
            Wait::LockDelay { until } | Wait::Failure { until } => until,
        }
    }

    /// A write was sent, or is no longer needed.
    pub(super) fn clear(&mut self) {
        self.wait = Wait::Nothing;
        self.is_explained = false;
    }

    /// A write succeeded, or something else is to be written.
    pub(super) fn reset(&mut self) {
        self.wait = Wait::Nothing;
        self.backoff.reset();
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        let until = now + self.backoff.next(rng);
        self.wait = Wait::Failure { until };
    }

    pub(super) fn refused(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        let until = now + lock_delay_step(rng);
        self.wait = if self.is_explained {
            Wait::Nothing
        } else {
            Wait::LockDelay { until }
        };
    }

    /// Whether a late attempt may be repeated at once. It may only once: otherwise somebody who
    /// writes the free key again and again would cause a hot loop.
    pub(super) fn may_repeat_at_once(&mut self) -> bool {
        !core::mem::replace(&mut self.has_repeated, true)
    }

    /// Somebody else has acquired the key, so a late attempt may be repeated again.
    pub(super) fn somebody_led(&mut self) {
        self.has_repeated = false;
        self.is_explained = true;
        if matches!(self.wait, Wait::LockDelay { .. }) {
            self.wait = Wait::Nothing;
        }
    }
}

/// The most time between two attempts. The least is half of it.
const STEP: Duration = Duration::from_secs(1);

/// How long an attempt waits that a lock delay may have refused.
fn lock_delay_step(rng: &mut fastrand::Rng) -> Duration {
    let step = jitter(STEP / 2, STEP / 2, rng);
    if is_on(Defect::RefusalTakenForGood) {
        STEP * 3_600
    } else if is_on(Defect::LockDelayIgnored) {
        Duration::ZERO
    } else {
        step
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::election::candidacy::pace::*;

    #[test]
    fn one_late_attempt_is_repeated_at_once_until_somebody_leads() {
        let mut pace = Pace::new(Duration::from_secs(5));
        assert!(pace.may_repeat_at_once());
        assert!(!pace.may_repeat_at_once());
        assert!(!pace.may_repeat_at_once());
        pace.somebody_led();
        assert!(pace.may_repeat_at_once());
    }

    #[test]
    fn a_refusal_waits_for_nothing_when_somebody_led_meanwhile_or_leads_after_it() {
        let mut rng = fastrand::Rng::with_seed(1);
        let now = Instant::from_origin(Duration::from_secs(9));
        let mut pace = Pace::new(Duration::from_secs(5));
        pace.refused(now, &mut rng);
        pace.somebody_led();
        assert_eq!(pace.due(), Instant::ORIGIN);
        pace.refused(now, &mut rng);
        assert_eq!(pace.due(), Instant::ORIGIN);
        // The next attempt was sent after that.
        pace.clear();
        pace.refused(now, &mut rng);
        assert!(pace.due() > now);
        pace.failed(now, &mut rng);
        pace.somebody_led();
        assert!(pace.due() > now, "a failure is another reason");
    }

    #[test]
    fn refusals_wait_a_second_at_most_and_failures_ever_longer() {
        let mut rng = fastrand::Rng::with_seed(1);
        let now = Instant::from_origin(Duration::from_secs(9));
        let ms = Duration::from_millis;
        let mut pace = Pace::new(Duration::from_secs(5));
        assert_eq!(pace.due(), Instant::ORIGIN);
        pace.refused(now, &mut rng);
        assert!(pace.due() >= now + ms(500) && pace.due() <= now + ms(1_000));
        for step in [100, 200, 400] {
            pace.failed(now, &mut rng);
            assert!(pace.due() >= now + ms(step / 2) && pace.due() <= now + ms(step));
        }
        pace.clear();
        assert_eq!(pace.due(), Instant::ORIGIN);
        pace.failed(now, &mut rng);
        assert!(pace.due() > now + ms(200), "it goes on from there");
        pace.reset();
        pace.failed(now, &mut rng);
        assert!(pace.due() <= now + ms(100));
    }
}
