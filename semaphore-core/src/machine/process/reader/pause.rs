//! A pause after a failure. It grows with each further failure.

use core::time::Duration;

use super::backoff::Backoff;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Pause {
    until: Option<Instant>,
    backoff: Backoff,
}

impl Pause {
    pub(in crate::machine) fn new(cap: Duration) -> Self {
        Self {
            until: None,
            backoff: Backoff::new(Duration::from_millis(100), cap),
        }
    }

    /// It failed: nothing is tried for some time.
    pub(in crate::machine) fn begin(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.until = Some(now + self.backoff.next(rng));
    }

    /// Nothing is tried before this time.
    pub(in crate::machine) fn hold_until(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// When the next try may come, or the origin for "at once".
    pub(in crate::machine) fn due(&self) -> Instant {
        self.until.unwrap_or(Instant::ORIGIN)
    }

    /// Whether it is over, or there was none. If it is over, it ends.
    pub(in crate::machine) fn is_over(&mut self, now: Instant) -> bool {
        self.until.take_if(|until| *until <= now);
        self.until.is_none()
    }

    /// The pause is no longer needed.
    pub(in crate::machine) fn end(&mut self) {
        self.until = None;
    }

    /// It succeeded: the next pause is short again.
    pub(in crate::machine) fn reset(&mut self) {
        self.backoff.reset();
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    #[test]
    fn pauses_grow_until_one_succeeds() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut pause = Pause::new(Duration::from_secs(5));
        assert!(pause.is_over(at(0)));
        for longest in [100, 200] {
            pause.begin(at(0), &mut rng);
            assert!(!pause.is_over(at(longest / 2 - 1)));
            assert!(pause.timeout().is_some());
            assert!(pause.is_over(at(longest)));
            assert_eq!(pause.timeout(), None);
        }
        pause.begin(at(0), &mut rng);
        pause.reset();
        assert!(!pause.is_over(at(199)), "one that has begun goes on");
        pause.end();
        assert!(pause.is_over(at(0)));
        pause.begin(at(0), &mut rng);
        assert!(pause.is_over(at(100)));
    }
}
