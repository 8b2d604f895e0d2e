//! What outlives a campaign: what is known about the key, the wishes for sessions, and their pool if
//! they are shared with nobody.

use std::collections::VecDeque;

use crate::machine::election::settings::ElectionSettings;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::tenancy::loan::{LoanNews, LoanNo, LoanStep, LoanWish};
use crate::machine::sessions::lone::Lone;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Between {
    /// No new candidacy begins before this is over.
    pub(super) respawn: Pause,
    pub(super) key: Acquaintance,
    /// The last loan of a session.
    loan: LoanNo,
    wishes: VecDeque<LoanWish>,
    /// Its pool, unless the sessions are lent by others.
    pub(super) lone: Option<Box<Lone>>,
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

impl Between {
    pub(super) fn new(settings: &ElectionSettings, seed: u64) -> Self {
        Self {
            respawn: Pause::new(settings.session.retry_cap()),
            key: Acquaintance::Unknown,
            loan: LoanNo(0),
            wishes: VecDeque::new(),
            lone: Lone::new(&settings.session, settings.place(), seed),
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

    /// A wish for the pool of sessions.
    pub(super) fn wish(&mut self, step: LoanStep) {
        let loan = self.loan;
        self.wishes.push_back(LoanWish { loan, step });
    }

    /// Hands the wishes to its own pool, and returns the pool's news.
    pub(super) fn exchange(&mut self, now: Instant) -> Vec<LoanNews> {
        let Some(lone) = &mut self.lone else {
            return Vec::new();
        };
        lone.exchange(now, self.wishes.drain(..))
    }

    pub(super) fn poll_wish(&mut self) -> Option<LoanWish> {
        self.wishes.pop_front()
    }
}
