//! What outlives a campaign: what is known about the key, the session if another campaign is
//! expected soon, and its wishes for shared sessions.
//!
//! Creating and destroying a session are two writes of Consul's log. If campaigns follow one
//! another within half a second, as in a loop of `campaign_timeout` or of short terms, the session
//! is kept for the next one.

use core::time::Duration;
use std::collections::VecDeque;

use crate::machine::process::reader::pause::Pause;
use crate::machine::process::tenancy::loan::{LoanNo, LoanStep, LoanWish};
use crate::time::Instant;

/// How soon after a campaign the next one must come to be expected, and how long a session is kept
/// for it.
const SOON: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(super) struct Between {
    /// No new candidacy begins before this is over.
    pub(super) respawn: Pause,
    pub(super) key: Acquaintance,
    next: Next,
    /// When the last campaign or term ended here.
    released_at: Option<Instant>,
    /// The last loan of a shared session.
    loan: LoanNo,
    wishes: VecDeque<LoanWish>,
}

/// What is known about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquaintance {
    /// It has not been seen. If it is not an election's, it probably never was: the key is wrong.
    Unknown,
    /// It was seen as an election's, or missing. If it becomes something else, it may become an
    /// election's again.
    Election,
    /// It has become something else. That was reported.
    Overwritten,
}

/// Whether another campaign is expected soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Unlikely,
    Likely,
    /// Nobody will campaign any more.
    Never,
}

impl Between {
    pub(super) fn new(cap: Duration) -> Self {
        Self {
            respawn: Pause::new(cap),
            key: Acquaintance::Unknown,
            next: Next::Unlikely,
            released_at: None,
            loan: LoanNo(0),
            wishes: VecDeque::new(),
        }
    }

    /// A new candidacy begins.
    pub(super) fn begin_loan(&mut self) {
        self.loan.0 += 1;
    }

    /// The loan of the present candidacy.
    pub(super) fn loan(&self) -> LoanNo {
        self.loan
    }

    /// A wish for the shared sessions.
    pub(super) fn wish(&mut self, step: LoanStep) {
        let loan = self.loan;
        self.wishes.push_back(LoanWish { loan, step });
    }

    pub(super) fn poll_wish(&mut self) -> Option<LoanWish> {
        self.wishes.pop_front()
    }

    /// Somebody campaigns.
    pub(super) fn wanted(&mut self, now: Instant) {
        let is_soon = |at: Instant| now.saturating_since(at) <= SOON;
        self.next = match self.next {
            Next::Never => Next::Never,
            _ if self.released_at.is_some_and(is_soon) => Next::Likely,
            _ => Next::Unlikely,
        };
    }

    /// A campaign or a term has ended.
    pub(super) fn ended(&mut self, now: Instant) {
        self.released_at = Some(now);
    }

    /// Nobody will campaign any more.
    pub(super) fn close(&mut self) {
        self.next = Next::Never;
    }

    /// How long a session is kept without a campaign, if at all.
    pub(super) fn expects_another_until(&self, now: Instant) -> Option<Instant> {
        (self.next == Next::Likely).then(|| now + SOON)
    }

    /// Whether nobody will campaign any more.
    pub(super) fn is_closed(&self) -> bool {
        self.next == Next::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    #[test]
    fn whoever_comes_back_within_half_a_second_is_expected_again() {
        for (after, expected) in [(0, true), (500, true), (501, false)] {
            let mut between = Between::new(SOON);
            between.wanted(at(0));
            assert_eq!(between.expects_another_until(at(0)), None, "the first");
            between.ended(at(5_000));
            between.wanted(at(5_000 + after));
            assert_eq!(
                between.expects_another_until(at(0)).is_some(),
                expected,
                "{after}"
            );
        }
    }

    #[test]
    fn nobody_is_expected_after_the_end() {
        let mut between = Between::new(SOON);
        between.ended(at(0));
        between.wanted(at(1));
        assert_eq!(between.expects_another_until(at(9)), Some(at(509)));
        between.close();
        assert_eq!(between.expects_another_until(at(9)), None);
        assert!(between.is_closed());
    }
}
