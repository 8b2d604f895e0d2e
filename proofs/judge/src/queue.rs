//! Queue: waiters for a semaphore are served in the order in which their contender keys were
//! created. What may be passed nevertheless depends on time, and only that is kept here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::Moment;

/// After this time a free slot that the first waiter leaves unused may be taken by others.
pub const LEFT_UNUSED: Duration = Duration::from_millis(500);

/// When somebody was served, all who wait before it count as served until the next list, which comes
/// after this time for each place in the line (docs/PROTOCOL.md, rules 5 and 6).
pub const POLL: Duration = Duration::from_secs(5);

/// The longest time for which a slot stays in its process while another one's waiter is first.
pub const STAYS_FOR: Duration = Duration::from_millis(300);

/// How exactly moments are known: how long messages travel, and the rates of the slowest and the
/// fastest clock.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest time from what a host did to what another one knows of it, and back.
    pub travel: Duration,
    /// The rate of the slowest clock.
    pub slowest: f64,
    /// The rate of the fastest clock.
    pub fastest: f64,
}

impl Pace {
    /// All clocks are right, and messages take no time.
    pub const EXACT: Self = Self {
        travel: Duration::ZERO,
        slowest: 1.0,
        fastest: 1.0,
    };

    fn at_most(self, time: Duration) -> Duration {
        time.div_f64(self.slowest) + self.travel
    }

    fn at_least(self, time: Duration) -> Duration {
        time.div_f64(self.fastest)
    }
}

/// The waiters at one prefix, as far as time allows to pass them. Each has a number in the order in
/// which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    free_since: Option<Moment>,
    /// The newest waiter that counts as served, and since when.
    passed: BTreeMap<u64, Moment>,
    passed_within: BTreeMap<String, Moment>,
}

/// What a write left.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Whether a slot is free after it.
    pub is_free: bool,
    /// Whether it took out a dead holder.
    pub is_of_the_dead: bool,
    /// The number of the newest waiter.
    pub newest: u64,
    /// The number of the newest waiter ahead of those who were served.
    pub ahead: Option<u64>,
}

impl Queue {
    /// Whether a claim that was sent then, and applied at `at`, may pass this waiter, one of so many
    /// ahead: a slot had been left unused, or this waiter was passed before.
    pub fn may_pass(
        &self,
        pace: Pace,
        (sent_at, at): (Moment, Moment),
        came: u64,
        ahead: usize,
    ) -> bool {
        let left = pace.at_least(LEFT_UNUSED);
        let is_left = self
            .free_since
            .is_some_and(|since| sent_at.0 >= since.0 + left);
        let again = pace.at_most(lists_within(ahead));
        let mut passed = self.passed.range(came..);
        is_left || passed.any(|(_, passed)| at.0 <= passed.0 + again)
    }

    /// Whether a slot may still pass this waiter within another process.
    pub fn may_stay(&mut self, pace: Pace, at: Moment, waiter: &str) -> bool {
        let since = self.passed_within.entry(waiter.to_owned()).or_insert(at);
        at.0 <= since.0 + pace.at_most(STAYS_FOR)
    }

    /// The record was written. These sessions are new in it.
    pub fn changed<'s>(
        &mut self,
        pace: Pace,
        at: Moment,
        filled: Filled,
        added: impl IntoIterator<Item = &'s String>,
    ) {
        let left = pace.at_least(LEFT_UNUSED);
        let was_left = self.free_since.is_some_and(|since| at.0 >= since.0 + left);
        let passed = if was_left || filled.is_of_the_dead {
            Some(filled.newest)
        } else {
            filled.ahead
        };
        self.passed.extend(passed.map(|newest| (newest, at)));
        self.is_free(at, filled.is_free);
        for session in added {
            self.passed_within.remove(session);
        }
    }

    /// Whether a slot is free at this moment.
    pub fn is_free(&mut self, at: Moment, is_free: bool) {
        self.free_since = is_free.then(|| self.free_since.unwrap_or(at));
    }

    /// Forgets what can't be of importance any more, if these are all who wait, with their numbers.
    pub fn forget(&mut self, pace: Pace, at: Moment, waiting: &[(String, u64)]) {
        let again = pace.at_most(lists_within(waiting.len()));
        self.passed.retain(|newest, passed| {
            at.0 <= passed.0 + again && waiting.iter().any(|(_, came)| came <= newest)
        });
        self.passed_within
            .retain(|session, _| waiting.iter().any(|(waiter, _)| waiter == session));
    }
}

/// How long a waiter with so many ahead relies on one list.
fn lists_within(ahead: usize) -> Duration {
    POLL.saturating_mul(u32::try_from(ahead + 1).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn may_pass(queue: &Queue, now: u64, came: u64) -> bool {
        queue.may_pass(Pace::EXACT, (at(now), at(now)), came, 1)
    }

    fn fill(queue: &mut Queue, now: u64, is_of_the_dead: bool) {
        let filled = Filled {
            is_free: false,
            is_of_the_dead,
            newest: 7,
            ahead: None,
        };
        queue.changed(Pace::EXACT, at(now), filled, []);
    }

    #[test]
    fn a_slot_that_is_free_for_half_a_second_may_be_taken_by_others() {
        let mut queue = Queue::default();
        assert!(!may_pass(&queue, 1_000, 1));
        queue.is_free(at(1_000), true);
        queue.is_free(at(1_400), true);
        assert!(!may_pass(&queue, 1_499, 1));
        assert!(may_pass(&queue, 1_500, 1));
        queue.is_free(at(1_600), false);
        assert!(!may_pass(&queue, 1_600, 1));
    }

    #[test]
    fn who_saw_a_slot_left_unused_or_a_dead_holders_counts_as_served_until_the_next_list() {
        for is_of_the_dead in [false, true] {
            let mut queue = Queue::default();
            queue.is_free(at(if is_of_the_dead { 1_900 } else { 1_000 }), true);
            fill(&mut queue, 2_000, is_of_the_dead);
            assert!(may_pass(&queue, 12_000, 7), "it waited then");
            assert!(!may_pass(&queue, 12_000, 8), "it came later");
            assert!(!may_pass(&queue, 12_001, 7), "it is too late");
        }
        let mut queue = Queue::default();
        queue.is_free(at(1_900), true);
        fill(&mut queue, 2_000, false);
        assert!(!may_pass(&queue, 2_001, 7), "it was used at once");
    }

    #[test]
    fn who_stands_ahead_of_one_that_was_served_counts_as_served() {
        let mut queue = Queue::default();
        let filled = Filled {
            is_free: true,
            is_of_the_dead: false,
            newest: 9,
            ahead: Some(7),
        };
        queue.changed(Pace::EXACT, at(2_000), filled, []);
        assert!(may_pass(&queue, 2_001, 7));
        assert!(!may_pass(&queue, 2_001, 8), "it stands behind");
    }

    #[test]
    fn a_slot_stays_in_its_process_for_a_moment_and_counts_anew_for_the_next_turn() {
        let mut queue = Queue::default();
        assert!(queue.may_stay(Pace::EXACT, at(1_000), "a"));
        assert!(queue.may_stay(Pace::EXACT, at(1_300), "a"));
        assert!(!queue.may_stay(Pace::EXACT, at(1_301), "a"));
        queue.forget(Pace::EXACT, at(1_301), &[("a".into(), 1)]);
        assert!(!queue.may_stay(Pace::EXACT, at(1_302), "a"));
        queue.forget(Pace::EXACT, at(1_302), &[]);
        assert!(queue.may_stay(Pace::EXACT, at(1_303), "a"));
    }
}
