//! When the next write of the key is due (invariant L3).
//!
//! | after | it waits |
//! |---|---|
//! | a refusal: another holds the key, or a lock delay is on | half a second to a whole one |
//! | an attempt that came too late, since the key has changed under it | not, the first time; else as after a refusal |
//! | a failure | a growing time |

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::machine::backoff::{Backoff, jitter};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    at: Option<Instant>,
    backoff: Backoff,
    /// Whether an attempt has followed at once on one that came too late, and the key was free since.
    is_hurried: bool,
}

impl Pace {
    pub(super) fn new(cap: Duration) -> Self {
        Self {
            at: None,
            backoff: Backoff::new(Duration::from_millis(100), cap),
            is_hurried: false,
        }
    }

    /// When the next write is due; the origin if that is at once.
    pub(super) fn due(&self) -> Instant {
        self.at.unwrap_or(Instant::ORIGIN)
    }

    /// A write was sent, or is of no more use.
    pub(super) fn clear(&mut self) {
        self.at = None;
    }

    /// What was written was taken, or something else is to be written.
    pub(super) fn reset(&mut self) {
        self.at = None;
        self.backoff.reset();
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.at = Some(now + self.backoff.next(rng));
    }

    pub(super) fn refused(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.at = Some(now + jitter(STEP / 2, STEP / 2, rng));
        if is_on(Defect::LockDelayIgnored) {
            self.at = None;
        }
        if is_on(Defect::RefusalTakenForGood) {
            self.at = Some(now + STEP * 3_600);
        }
    }

    /// Whether an attempt that came too late may be repeated at once. It is no second time, or
    /// somebody who writes the free key again and again would make a hot loop.
    pub(super) fn hurry(&mut self) -> bool {
        !core::mem::replace(&mut self.is_hurried, true)
    }

    /// The key was seen with a session: what comes after that is another matter.
    pub(super) fn calm_down(&mut self) {
        self.is_hurried = false;
    }
}

/// How long one attempt is apart from the next, at most; half of it at least.
const STEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_attempt_is_repeated_at_once_until_somebody_leads() {
        let mut pace = Pace::new(Duration::from_secs(5));
        assert!(pace.hurry());
        assert!(!pace.hurry());
        assert!(!pace.hurry());
        pace.calm_down();
        assert!(pace.hurry());
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
