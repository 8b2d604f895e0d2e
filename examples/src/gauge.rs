//! Who believed to hold a slot when, by this program's clock, and how many did at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Collects the beliefs of all contenders of a program.
#[derive(Debug, Default)]
pub struct Gauge {
    beliefs: Mutex<Vec<Belief>>,
}

/// One contender believed to hold a slot, from `since` until just before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Whose it was.
    pub contender: usize,
    /// After the permit was handed out.
    pub since: Instant,
    /// Before it was given back, or when its loss was reported.
    pub until: Instant,
}

/// A belief that has not ended yet. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the belief ends when this is dropped"]
pub struct Holding {
    gauge: Arc<Gauge>,
    contender: usize,
    since: Instant,
}

impl Gauge {
    /// `contender` believes to hold a slot from now on.
    pub fn begin(self: &Arc<Self>, contender: usize) -> Holding {
        Holding {
            gauge: Arc::clone(self),
            contender,
            since: Instant::now(),
        }
    }

    /// All beliefs that have ended, in the order in which they began.
    pub fn beliefs(&self) -> Vec<Belief> {
        let mut beliefs = self.lock().clone();
        beliefs.sort_by_key(|belief| belief.since);
        beliefs
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Belief>> {
        self.beliefs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let belief = Belief {
            contender: self.contender,
            since: self.since,
            until: Instant::now(),
        };
        self.gauge.lock().push(belief);
    }
}

/// How many beliefs overlapped at the worst moment, by a sweep over their ends.
pub fn most_at_once(beliefs: &[Belief]) -> usize {
    let begins = beliefs.iter().map(|belief| (belief.since, true));
    let ends = beliefs.iter().map(|belief| (belief.until, false));
    let mut moments: Vec<_> = begins.chain(ends).collect();
    // At the same moment ends come first: a belief does not include its last moment.
    moments.sort_unstable();
    let mut now = 0_usize;
    let mut most = 0;
    for (_, is_begin) in moments {
        if is_begin {
            now += 1;
            most = most.max(now);
        } else {
            now -= 1;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn beliefs(spans: &[(u64, u64)]) -> Vec<Belief> {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let belief = |(contender, (since, until)): (usize, &(u64, u64))| Belief {
            contender,
            since: at(*since),
            until: at(*until),
        };
        spans.iter().enumerate().map(belief).collect()
    }

    #[test]
    fn beliefs_that_overlap_are_counted_together() {
        assert_eq!(
            most_at_once(&beliefs(&[(0, 10), (2, 4), (3, 12), (11, 13)])),
            3
        );
    }

    #[test]
    fn a_belief_that_begins_when_another_ends_is_not_beside_it() {
        assert_eq!(most_at_once(&beliefs(&[(0, 10), (10, 20), (20, 30)])), 1);
    }

    #[test]
    fn nobody_believes_nothing() {
        assert_eq!(most_at_once(&[]), 0);
    }

    #[test]
    fn a_semaphore_that_admits_too_many_is_found_out() {
        let gauge = Arc::new(Gauge::default());
        let all: Vec<_> = (0..4).map(|contender| gauge.begin(contender)).collect();
        drop(all);
        assert_eq!(most_at_once(&gauge.beliefs()), 4);
    }

    #[test]
    fn a_belief_ends_when_its_holding_does() {
        let gauge = Arc::new(Gauge::default());
        drop(gauge.begin(7));
        drop(gauge.begin(8));
        let beliefs = gauge.beliefs();
        assert_eq!(beliefs.len(), 2);
        assert_eq!(beliefs[0].contender, 7);
        assert_eq!(most_at_once(&beliefs), 1);
    }
}
