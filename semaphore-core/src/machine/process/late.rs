//! Writes that were given up, and that an agent may still apply.
//!
//! An agent that finds no leader holds a request and retries it, whether or not its client still
//! waits. So a write may be applied after a later read has not shown it: no read settles it. An
//! index does: a write that names the index at which it found its key is never applied once the key
//! has moved on. A write that names no index, or that there must be no key (which may be so again),
//! is only over after a time.
//!
//! Source: measured on agents of 1.23 (held for up to 18 s, applied up to 4.7 s after such a read)
//! and of 1.8.7 (7 s, 0.3 s).

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::time::Instant;

/// How long an unanswered write may still be applied: the measured time, and some more.
pub(in crate::machine) const LATEST: Duration = Duration::from_secs(25);

/// Writes of one key that were given up and may still be applied.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::machine) struct GivenUp {
    /// Until when a write may be applied that no index settles.
    until: Option<Instant>,
    /// The index that the other writes name.
    base: Option<Index>,
    /// By when the last of them must have come, according to the measurements.
    latest: Option<Instant>,
}

impl GivenUp {
    /// Another write was given up. It names this index, or zero for a missing key or no index.
    pub(in crate::machine) fn add(&mut self, now: Instant, base: Index) {
        self.latest = Some(now + LATEST);
        if base == Index::ZERO {
            self.until = Some(now + LATEST);
        } else {
            self.base = Some(base);
        }
    }

    /// The key was seen at this index, or zero if it does not exist.
    pub(in crate::machine) fn saw(&mut self, now: Instant, index: Index) {
        self.base.take_if(|base| *base != index);
        self.until.take_if(|until| *until <= now);
        if self.base.is_none() && self.until.is_none() {
            self.latest = None;
        }
        if is_on(Defect::ReadSettles) {
            *self = Self::default();
        }
    }

    /// By when the last of them must have come, according to the measurements.
    pub(in crate::machine) fn latest(&self) -> Option<Instant> {
        self.latest
    }

    /// Nothing is waited for any longer.
    pub(in crate::machine) fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether any may still be applied.
    pub(in crate::machine) fn may_come(&self, now: Instant) -> bool {
        self.base.is_some() || self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    #[test]
    fn what_names_an_index_is_settled_by_another_one_and_by_no_time() {
        let mut given_up = GivenUp::default();
        assert!(!given_up.may_come(at(0)));
        given_up.add(at(0), Index(7));
        given_up.saw(at(1), Index(7));
        assert!(given_up.may_come(at(1_000)));
        given_up.saw(at(1), Index(8));
        assert!(!given_up.may_come(at(1)));
        given_up.add(at(1), Index(8));
        given_up.saw(at(2), Index::ZERO);
        assert!(!given_up.may_come(at(2)), "it was deleted");
    }

    #[test]
    fn nothing_is_waited_for_once_all_are_settled() {
        let mut given_up = GivenUp::default();
        assert_eq!(given_up.latest(), None);
        given_up.add(at(0), Index(7));
        given_up.add(at(5), Index::ZERO);
        given_up.saw(at(6), Index(8));
        assert_eq!(given_up.latest(), Some(at(30)));
        given_up.saw(at(30), Index(8));
        assert_eq!(given_up.latest(), None);
        given_up.add(at(40), Index(8));
        given_up.saw(at(90), Index(8));
        assert_eq!(given_up.latest(), Some(at(65)));
        given_up.end();
        assert!(!given_up.may_come(at(90)));
        assert_eq!(given_up.latest(), None);
    }

    #[test]
    fn what_names_none_is_settled_by_time_alone() {
        let mut given_up = GivenUp::default();
        given_up.add(at(0), Index::ZERO);
        given_up.saw(at(1), Index(7));
        given_up.saw(at(2), Index::ZERO);
        assert!(given_up.may_come(at(24)));
        assert!(!given_up.may_come(at(25)));
        given_up.add(at(30), Index(7));
        given_up.add(at(30), Index::ZERO);
        given_up.saw(at(31), Index(8));
        assert!(given_up.may_come(at(54)));
        assert!(!given_up.may_come(at(55)));
    }
}
