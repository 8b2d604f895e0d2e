//! Who waited, held and lost when. It is printed while it happens, and kept for the drawing.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semaphore_core::FencingToken;
use semaphore_core::adapter::Instant;

use crate::say::say;

pub(crate) struct Story {
    start: Instant,
    limit: NonZeroU32,
    told: Mutex<Told>,
}

#[derive(Clone, Default)]
struct Told {
    turns: Vec<Turn>,
    cut_off: Option<(usize, Duration)>,
}

/// One slot held by one contender. Times count from the start; it waited until it held.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) contender: usize,
    /// How long it should hold.
    hold: Duration,
    pub(crate) since: Duration,
    /// `None` while it holds.
    until: Option<Duration>,
    pub(crate) was_lost: bool,
}

impl Story {
    pub(crate) fn new(start: Instant, limit: NonZeroU32) -> Self {
        let told = Mutex::default();
        Self { start, limit, told }
    }

    pub(crate) fn granted(
        &self,
        now: Instant,
        contender: usize,
        hold: Duration,
        token: FencingToken,
    ) {
        let since = now.saturating_since(self.start);
        self.lock().turns.push(Turn {
            contender,
            hold,
            since,
            until: None,
            was_lost: false,
        });
        self.tell(
            since,
            contender,
            format_args!("holds a slot, token {token}"),
        );
    }

    pub(crate) fn ended(&self, now: Instant, contender: usize, was_lost: bool) {
        let until = now.saturating_since(self.start);
        for turn in &mut self.lock().turns {
            if turn.contender == contender {
                turn.until = Some(until);
                turn.was_lost = was_lost;
            }
        }
        let what = if was_lost {
            "has lost it, and stops"
        } else {
            "gives it back"
        };
        self.tell(until, contender, format_args!("{what}"));
    }

    /// Its network is gone from now on.
    pub(crate) fn cut_off(&self, now: Instant, contender: usize) {
        let at = now.saturating_since(self.start);
        self.lock().cut_off = Some((contender, at));
        self.tell(at, contender, format_args!("is cut off from Consul"));
    }

    pub(crate) fn is_cut_off(&self, contender: usize) -> bool {
        self.lock().cut_off.is_some_and(|(it, _)| it == contender)
    }

    /// The contender that was cut off, and when.
    pub(crate) fn cut(&self) -> Option<(usize, Duration)> {
        self.lock().cut_off
    }

    /// A holder whose slot somebody had before, and who should hold it for longer than this.
    pub(crate) fn admitted_later_for(&self, longer: Duration) -> Option<usize> {
        let told = self.lock();
        let mut later = told.turns.iter().skip(self.limit());
        let found = later.find(|it| it.until.is_none() && it.hold > longer)?;
        Some(found.contender)
    }

    pub(crate) fn is_held_by(&self, contender: usize) -> bool {
        let told = self.lock();
        let mut turns = told.turns.iter();
        turns.any(|it| it.contender == contender && it.until.is_none())
    }

    /// The story, when nobody adds to it any more.
    pub(crate) fn told(&self) -> Self {
        Self {
            start: self.start,
            limit: self.limit,
            told: Mutex::new(self.lock().clone()),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        usize::try_from(self.limit.get()).unwrap_or(usize::MAX)
    }

    /// All turns that have ended, in the order in which they began.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let mut turns = self.lock().turns.clone();
        turns.retain(|it| it.until.is_some());
        turns
    }

    /// From the start to the last turn's end.
    pub(crate) fn length(&self) -> Duration {
        let ends = self.turns().into_iter().map(|it| it.until());
        ends.max().unwrap_or_default()
    }

    /// How many held after each change.
    pub(crate) fn counts(&self) -> Vec<(Duration, usize)> {
        let turns = self.turns();
        let mut moments: Vec<_> = turns
            .iter()
            .flat_map(|it| [(it.since, 1), (it.until(), -1)])
            .collect();
        // At the same moment ends come first: a turn does not include its last moment.
        moments.sort_unstable();
        let mut held = 0_usize;
        let count = |(at, change): (Duration, isize)| {
            held = held.saturating_add_signed(change);
            (at, held)
        };
        moments.into_iter().map(count).collect()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        let counts = self.counts().into_iter();
        counts.map(|(_, held)| held).max().unwrap_or(0)
    }

    fn tell(&self, at: Duration, contender: usize, what: std::fmt::Arguments<'_>) {
        let holding = self
            .lock()
            .turns
            .iter()
            .filter(|it| it.until.is_none())
            .count();
        say(format_args!(
            "{:7.3} s  {} {:<28} {holding} of {} held",
            at.as_secs_f64(),
            name(contender),
            what.to_string(),
            self.limit
        ));
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    pub(crate) fn until(&self) -> Duration {
        self.until.unwrap_or(self.since)
    }

    pub(crate) fn covers(&self, moment: Duration) -> bool {
        (self.since..self.until()).contains(&moment)
    }
}

/// The name of a contender and its host.
pub(crate) fn name(contender: usize) -> String {
    format!("node-{:02}", contender + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A story of turns in milliseconds. The last value says whether it was lost.
    pub(crate) fn story(turns: &[(usize, u64, u64, bool)]) -> Story {
        let at = |millis| Instant::from_origin(Duration::from_millis(millis));
        let story = Story::new(at(0), NonZeroU32::MIN);
        for (contender, since, until, was_lost) in turns {
            story.lock().turns.push(Turn {
                contender: *contender,
                hold: Duration::ZERO,
                since: Duration::from_millis(*since),
                until: Some(Duration::from_millis(*until)),
                was_lost: *was_lost,
            });
        }
        story
    }

    #[test]
    fn turns_that_overlap_are_counted_together() {
        let told = story(&[(0, 0, 10, false), (1, 2, 4, false), (2, 3, 12, false)]);
        assert_eq!(told.most_at_once(), 3);
    }

    #[test]
    fn a_turn_that_begins_when_another_ends_is_not_beside_it() {
        let told = story(&[(0, 0, 10, false), (1, 10, 20, false)]);
        assert_eq!(told.most_at_once(), 1);
    }

    #[test]
    fn nobody_holds_nothing() {
        assert_eq!(story(&[]).most_at_once(), 0);
    }
}
