//! Reduces the faults of a failing test to the fewest with which it still fails.

use std::collections::VecDeque;

use crate::fault::Faults;

/// The most runs for one reduction.
const RUNS: u32 = 100;

/// The limits on the number of faults that are tried, smallest first.
const COUNTS: [u64; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Rates below this count as zero.
const LEAST_RATE: f64 = 0.001;

/// The search. Each idea is run, and the search is told whether it failed.
pub(super) struct Shrinking {
    smallest: Faults,
    ideas: VecDeque<Faults>,
    runs_left: u32,
}

impl Shrinking {
    /// Starts from faults with which the test fails.
    pub(super) fn from(faults: Faults) -> Self {
        Self {
            smallest: faults,
            ideas: ideas(&faults),
            runs_left: RUNS,
        }
    }

    /// What to run next, or `None` if nothing is left to try.
    pub(super) fn poll_idea(&mut self) -> Option<Faults> {
        self.runs_left = self.runs_left.checked_sub(1)?;
        self.ideas.pop_front()
    }

    /// The test also failed with this idea: the search continues from it.
    pub(super) fn handle_failure(&mut self, idea: Faults) {
        self.smallest = idea;
        self.ideas = ideas(&idea);
    }

    pub(super) fn smallest(&self) -> Faults {
        self.smallest
    }
}

/// All that is a little less: fewer faults, fewer kinds of them, lower rates.
fn ideas(faults: &Faults) -> VecDeque<Faults> {
    if faults.rates().iter().all(|(_, rate)| *rate <= 0.0) {
        return VecDeque::new();
    }
    let fewer = COUNTS.into_iter();
    let fewer = fewer.filter(|count| faults.at_most.is_none_or(|most| *count < most));
    let fewer = fewer.map(|count| Faults {
        at_most: Some(count),
        ..*faults
    });
    let kinds = 0..faults.rates().len();
    let without = kinds
        .clone()
        .filter_map(|kind| changed(faults, kind, |_| 0.0));
    let rarer = kinds.filter_map(|kind| {
        let halved = |rate| if rate < LEAST_RATE { rate } else { rate / 2.0 };
        changed(faults, kind, halved)
    });
    let none = std::iter::once(Faults::none());
    none.chain(fewer).chain(without).chain(rarer).collect()
}

/// With another rate of one kind, if it differs.
fn changed(faults: &Faults, kind: usize, rate: impl Fn(f64) -> f64) -> Option<Faults> {
    let mut changed = *faults;
    let (_, of_kind) = changed.rates_mut().into_iter().nth(kind)?;
    *of_kind = rate(*of_kind);
    (changed != *faults).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shrunk(faults: Faults, fails: impl Fn(&Faults) -> bool) -> Faults {
        let mut shrinking = Shrinking::from(faults);
        while let Some(idea) = shrinking.poll_idea() {
            if fails(&idea) {
                shrinking.handle_failure(idea);
            }
        }
        shrinking.smallest()
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let smallest = shrunk(Faults::chaos(0.1), |faults| {
            faults.lose_answer > 0.0 && faults.at_most.is_none_or(|most| most >= 3)
        });
        let expected = Faults {
            lose_answer: smallest.lose_answer,
            at_most: Some(3),
            ..Faults::none()
        };
        assert_eq!(smallest, expected);
        assert!(smallest.lose_answer < LEAST_RATE);
    }

    #[test]
    fn a_rate_that_matters_stays() {
        let smallest = shrunk(Faults::chaos(0.08), |faults| faults.refuse > 0.03);
        assert!((0.03..0.06).contains(&smallest.refuse), "{smallest}");
        assert_eq!(smallest.at_most, Some(1));
    }

    #[test]
    fn what_fails_without_faults_has_none() {
        assert_eq!(shrunk(Faults::chaos(0.1), |_| true), Faults::none());
    }

    #[test]
    fn the_search_ends() {
        let mut shrinking = Shrinking::from(Faults::chaos(1.0));
        let mut runs = 0;
        while shrinking.poll_idea().is_some() {
            shrinking.handle_failure(Faults::chaos(1.0));
            runs += 1;
        }
        assert_eq!(runs, RUNS);
    }
}
