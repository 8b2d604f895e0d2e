//! How many attempts a free key gets when many wait for it.
//!
//! All who wait see the free key at the same moment. If all of them wrote, each write would go
//! through Raft, and all but one would fail. So a candidate that has lost such a race waits for a
//! random time at the next one. Within the spread the key is seen to be taken, and most attempts
//! are never sent.
//!
//! | the spread after | is |
//! |---|---|
//! | no race | 0 |
//! | a race that was lost | 1 ms, then twice as much each time, [`MOST`] at most |
//! | a key that was free for more than a quarter of the spread, no matter who took it | three quarters: few wait |
//! | each look, where the watch is paced | five sixths |
//!
//! So all who wait have about the same spread: the time of an attempt for each candidate. Each is
//! equally likely to lead next, even the last leader.
//!
//! If the key changes more often than a watch may look at it, the looks are spread instead. Each
//! candidate looks at another moment, and tries at once when it sees the key free, since the key is
//! taken by its next look. The last row of the table keeps about one late attempt for each term,
//! and a few looks, however many candidates there are.
//!
//! Source: counted on virtual time and on 1.8.7 with 20 and 200 candidates, see docs/COST.md.

use core::time::Duration;

use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Race {
    spread: Duration,
    /// Nothing is sent before this time.
    until: Instant,
    part: Part,
    /// Whether the watch looks less often than the key changes.
    is_paced: bool,
}

/// Our part in the race for a free key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    None,
    /// We saw it free at this time.
    Free(Instant),
    /// We saw it free at this time, and have sent an attempt.
    Entered(Instant),
}

impl Race {
    pub(super) const fn new() -> Self {
        Self {
            spread: Duration::ZERO,
            until: Instant::ORIGIN,
            part: Part::None,
            is_paced: false,
        }
    }

    /// The time over which attempts are spread.
    pub(super) fn spread(&self) -> Duration {
        self.spread
    }

    /// The watch has looked.
    pub(super) fn looked(&mut self) {
        if self.is_paced {
            self.narrow(5, 6);
        }
    }

    fn narrow(&mut self, times: u32, of: u32) {
        self.spread = self.spread * times / of;
        if self.spread < LEAST {
            self.spread = Duration::ZERO;
        }
    }

    /// When an attempt may be sent.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether the next answer of the watch had to wait for its budget.
    pub(super) fn watch_is_paced(&mut self, is_paced: bool) {
        self.is_paced = is_paced;
    }

    /// An attempt has no time to wait.
    pub(super) fn hurry(&mut self) {
        self.until = Instant::ORIGIN;
    }

    /// The key is newly seen free.
    pub(super) fn begin(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.part = Part::Free(now);
        self.until = if self.is_paced {
            Instant::ORIGIN
        } else {
            now + self.spread.mul_f64(rng.f64())
        };
    }

    /// An attempt was sent.
    pub(super) fn enter(&mut self) {
        if let Part::Free(released_at) = self.part {
            self.part = Part::Entered(released_at);
        }
    }

    /// Somebody else was seen to acquire the key.
    pub(super) fn somebody_led(&mut self, now: Instant) {
        if let Part::Entered(_) = self.part {
            self.part = Part::None;
            self.spread = (self.spread * 2).clamp(LEAST, MOST);
        } else {
            self.taken(now);
        }
    }

    /// We have acquired it.
    pub(super) fn won(&mut self, now: Instant) {
        self.taken(now);
    }

    /// The race is over. Its duration tells how many wait.
    fn taken(&mut self, now: Instant) {
        let part = core::mem::replace(&mut self.part, Part::None);
        if let Part::Free(released_at) | Part::Entered(released_at) = part
            && !self.is_paced
            && now.saturating_since(released_at) > self.spread / 4
        {
            self.narrow(3, 4);
        }
    }
}

const LEAST: Duration = Duration::from_millis(1);

/// It is far below the time after which a leader's crash is noticed, and several times the time of
/// an answer in a datacenter.
const MOST: Duration = Duration::from_millis(64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    fn lose(race: &mut Race, rng: &mut fastrand::Rng) {
        race.begin(at(0), rng);
        race.enter();
        race.somebody_led(at(0));
    }

    #[test]
    fn who_loses_spreads_its_attempts() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut race = Race::new();
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0), "the first goes at once");
        for most in [1, 2, 4, 8, 16, 32, 64, 64] {
            lose(&mut race, &mut rng);
            race.begin(at(0), &mut rng);
            assert!(race.until() <= at(most), "{most}");
        }
        let late = (0..50).filter(|_| {
            race.begin(at(0), &mut rng);
            race.until() > at(16)
        });
        assert!(late.count() > 25);
        race.hurry();
        assert_eq!(race.until(), at(0), "who has no time tries at once");
    }

    #[test]
    fn a_key_that_is_free_for_long_narrows_the_spread_and_one_that_is_taken_soon_does_not() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut race = Race::new();
        for _ in 0..6 {
            lose(&mut race, &mut rng);
        }
        let spread = race.spread;
        for _ in 0..50 {
            race.begin(at(0), &mut rng);
            race.somebody_led(at(2));
        }
        assert_eq!(race.spread, spread);
        for _ in 0..50 {
            race.begin(at(0), &mut rng);
            race.won(at(20));
        }
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0));
    }

    #[test]
    fn who_sent_nothing_has_lost_no_race() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut race = Race::new();
        race.begin(at(0), &mut rng);
        race.somebody_led(at(0));
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0));
    }

    #[test]
    fn where_the_watch_is_paced_who_sees_the_key_free_tries_at_once_and_each_look_narrows_the_spread()
     {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut race = Race::new();
        race.watch_is_paced(true);
        for _ in 0..4 {
            lose(&mut race, &mut rng);
        }
        assert_eq!(race.spread(), at(8).saturating_since(at(0)));
        race.begin(at(0), &mut rng);
        assert_eq!(race.until(), at(0));
        race.won(at(99));
        assert_eq!(race.spread(), at(8).saturating_since(at(0)));
        let looks = (0..).take_while(|_| {
            race.looked();
            !race.spread().is_zero()
        });
        assert_eq!(looks.count(), 11);
    }
}
