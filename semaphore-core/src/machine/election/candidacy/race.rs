//! How many attempts a free key gets, where many wait for it.
//!
//! All who wait see the key free at the same moment. If all of them wrote, each of those writes would go through Raft, and all but one
//! for nothing. So who has lost such a race lets the others go first by chance the next time: within the spread the key is seen
//! to be taken, and most attempts are never sent. Who has won hurries more the next time.
//!
//! | the spread after | is |
//! |---|---|
//! | no race, or races that were won | 0 |
//! | a race that was lost | 1 ms, then twice as much each time, [`MOST`] at most |
//! | a term that it led | half |
//!
//! Source: counted on 1.8.7 with 20 candidates whose terms are short, see docs/COST.md.

use core::time::Duration;

use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Race {
    spread: Duration,
    /// Before that nothing is sent.
    until: Instant,
    part: Part,
}

/// Whether we take part in the race for the key that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    None,
    /// An attempt was sent since the key was seen free.
    Attempted,
}

impl Race {
    pub(super) const fn new() -> Self {
        Self {
            spread: Duration::ZERO,
            until: Instant::ORIGIN,
            part: Part::None,
        }
    }

    /// When an attempt may be sent.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// The key is seen free.
    pub(super) fn begin(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.part = Part::None;
        self.until = now + self.spread.mul_f64(rng.f64());
    }

    /// An attempt was sent.
    pub(super) fn enter(&mut self) {
        self.part = Part::Attempted;
    }

    /// Somebody else is seen to have acquired the key.
    pub(super) fn somebody_led(&mut self) {
        if core::mem::replace(&mut self.part, Part::None) == Part::Attempted {
            self.spread = (self.spread * 2).clamp(LEAST, MOST);
        }
    }

    /// We have acquired it.
    pub(super) fn won(&mut self) {
        self.part = Part::None;
        self.spread /= 2;
        if self.spread < LEAST {
            self.spread = Duration::ZERO;
        }
    }
}

const LEAST: Duration = Duration::from_millis(1);

/// Far below what a handover is noticed by, and several times what an answer takes in a datacenter.
const MOST: Duration = Duration::from_millis(16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    #[test]
    fn who_loses_spreads_its_attempts_and_who_wins_hurries() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut race = Race::new();
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0), "the first goes at once");
        for most in [1, 2, 4, 8, 16, 16] {
            race.enter();
            race.somebody_led();
            race.begin(at(0), &mut rng);
            assert!(race.until() <= at(most), "{most}");
        }
        let late = (0..50).filter(|_| {
            race.begin(at(0), &mut rng);
            race.until() > at(4)
        });
        assert!(late.count() > 25);
        for _ in 0..5 {
            race.won();
        }
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0));
    }

    #[test]
    fn who_sent_nothing_has_lost_no_race() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut race = Race::new();
        race.begin(at(0), &mut rng);
        race.somebody_led();
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0));
    }
}
