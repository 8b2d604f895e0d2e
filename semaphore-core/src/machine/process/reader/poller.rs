//! Reads one thing repeatedly: first a plain read, then blocking queries that each continue after
//! the last answer.
//!
//! ```text
//!           start()                  answered or failed
//!   Idle ───────────▶ Waiting ◀────────────────────────── Polling
//!    ▲                 │ └───── sent, within the budget ───▲ ▲ │
//!    ├──── pause() ────┘                            start()│ │pause()
//!    └───────────── answered or failed ─────────────── LastPoll
//! ```
//! If nothing is to be watched any more, a poll under way is left to its end. An agent counts the
//! connection of a closed poll until that poll would have ended, and allows a client 200
//! (`limits.http_max_conns_per_client`; docs/CONSUL.md, "Limits and timeouts").
//!
//! [`Cursor`] decides where a poll continues, [`Budget`] how often one may be sent (L3), and
//! [`Backoff`] when one follows a failure.

use core::time::Duration;

use super::backoff::{Backoff, jitter};
use super::budget::Budget;
use super::cursor::{Cursor, Progress};
use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::time::Instant;

/// How long the server may hold a poll open without a change, by default.
pub(in crate::machine) const WAIT: Duration = Duration::from_secs(15);

/// How long after an answer without an index the next read follows.
const WITHOUT_INDEX: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(in crate::machine) struct Poller {
    state: State,
    cursor: Cursor,
    /// How long the server may hold a poll open without a change.
    wait: Duration,
    budget: Budget,
    /// If the data changes more often than it may be read: when it is read next.
    wanted_from: Option<Instant>,
    backoff: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting {
        until: Instant,
    },
    Polling,
    /// Polling for the last time.
    LastPoll,
}

/// How a reader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Start {
    /// With a plain read, which is answered at once.
    Anew,
    /// With the poll that was still under way.
    Resumed,
    /// It was running already.
    Running,
}

impl Poller {
    /// It waits up to `cap` after a failure.
    pub(in crate::machine) fn new(budget: Budget, cap: Duration) -> Self {
        Self {
            state: State::Idle,
            cursor: Cursor::new(),
            wait: WAIT,
            budget,
            wanted_from: None,
            backoff: Backoff::new(Duration::from_millis(100), cap),
        }
    }

    /// The server may hold its polls open for this time.
    #[must_use]
    pub(in crate::machine) fn holding(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The same for a reader that already polls.
    pub(in crate::machine) fn hold(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// Reads from now on.
    pub(in crate::machine) fn start(&mut self) -> Start {
        match self.state {
            State::Idle => {
                self.cursor.restart();
                self.state = State::Waiting {
                    until: Instant::ORIGIN,
                };
                Start::Anew
            }
            State::LastPoll => {
                self.state = State::Polling;
                Start::Resumed
            }
            State::Polling | State::Waiting { .. } => Start::Running,
        }
    }

    /// Stops polling.
    pub(in crate::machine) fn pause(&mut self) {
        self.state = match self.state {
            State::Polling | State::LastPoll => State::LastPoll,
            State::Idle | State::Waiting { .. } => State::Idle,
        };
    }

    /// Whether nothing is read now or later.
    #[cfg(test)]
    pub(in crate::machine) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    pub(in crate::machine) fn is_polling(&self) -> bool {
        matches!(self.state, State::Polling | State::LastPoll)
    }

    /// Whether the present or next poll is a plain read.
    pub(in crate::machine) fn is_at_start(&self) -> bool {
        self.cursor.is_at_start()
    }

    /// When the next poll is due.
    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => {
                let paced = until.max(self.budget.ready_at());
                Some(self.wanted_from.map_or(paced, |from| from.max(paced)))
            }
            State::Idle | State::Polling | State::LastPoll => None,
        }
    }

    /// Sends a poll. Returns its index and its wait; `None` for a plain read.
    pub(in crate::machine) fn send(&mut self, now: Instant) -> Option<(Index, Duration)> {
        self.budget.take(now);
        self.state = State::Polling;
        self.cursor.sent(now);
        Some((self.cursor.index(), self.wait)).filter(|_| !self.cursor.is_at_start())
    }

    /// Takes its answer. Returns how it relates to the one before it. If nothing can wait on it,
    /// only time tells when to read again.
    pub(in crate::machine) fn answered(&mut self, now: Instant, index: Index) -> Progress {
        self.backoff.reset();
        let progress = self.cursor.answered(now, index, self.wait);
        let rest = if index == Index::ZERO {
            WITHOUT_INDEX
        } else {
            Duration::ZERO
        };
        self.ended(now + rest);
        progress
    }

    /// If the budget is used up, the next poll comes at a random time up to `spread` later, and at
    /// least an interval. Otherwise all who watch a busy key would poll at the same moments, and
    /// nobody would see a change in between. This lasts until nothing changes for that time.
    /// Returns whether it is so.
    pub(in crate::machine) fn spread(
        &mut self,
        now: Instant,
        spread: Duration,
        rng: &mut fastrand::Rng,
    ) -> bool {
        let spread = spread.max(self.budget.interval());
        let ready_at = self.budget.ready_at();
        let is_busy = |from: Instant| now.saturating_since(from) <= spread;
        let is_paced = ready_at > now || self.wanted_from.is_some_and(is_busy);
        self.wanted_from =
            is_paced.then(|| ready_at.max(now) + jitter(Duration::ZERO, spread, rng));
        is_paced
    }

    /// The next one comes after a pause.
    pub(in crate::machine) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        let wait = self.backoff.next(rng);
        if !is_on(Defect::WatchStoppedAfterTransient) {
            self.ended(now + wait);
        }
    }

    /// The poll under way has ended, whatever the outcome. The next one may follow at `until`.
    pub(in crate::machine) fn ended(&mut self, until: Instant) {
        self.state = match self.state {
            State::Polling => State::Waiting { until },
            State::LastPoll => State::Idle,
            state => state,
        };
    }

    /// Whether the poll under way names an index that Consul has not reached, if it is at this one. It
    /// would last its whole wait.
    pub(in crate::machine) fn is_ahead_of(&self, index: Index) -> bool {
        self.is_polling() && self.cursor.index() > index
    }

    /// The next poll is a plain read.
    pub(in crate::machine) fn restart(&mut self) {
        self.cursor.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;

    const SECOND: u64 = 1_000;

    fn poller() -> Poller {
        Poller::new(
            Budget::new(Duration::from_millis(100), 20),
            Duration::from_secs(5),
        )
    }

    /// The index of a plain read.
    const START: u64 = 0;

    /// Sends the poll that is due, and returns its index.
    fn poll(poller: &mut Poller, now: Instant) -> Option<u64> {
        poller.timeout().filter(|due| *due <= now)?;
        Some(poller.send(now).map_or(START, |(index, _)| index.0))
    }

    #[test]
    fn it_starts_with_a_plain_read_and_goes_on_from_its_index() {
        let mut poller = poller();
        assert_eq!(poll(&mut poller, at(SECOND)), None);
        assert_eq!(poller.start(), Start::Anew);
        assert_eq!(poller.start(), Start::Running);
        assert_eq!(poll(&mut poller, at(SECOND)), Some(START));
        assert_eq!(poll(&mut poller, at(SECOND)), None, "one poll at a time");
        poller.answered(at(SECOND), Index(7));
        assert_eq!(poll(&mut poller, at(SECOND)), Some(7));
    }

    #[test]
    fn an_index_that_goes_backwards_or_stands_still_too_early_starts_again() {
        for (index, after, next) in [(6, 15, START), (7, 14, START), (7, 15, 7), (8, 0, 8)] {
            let mut poller = poller();
            poller.start();
            poll(&mut poller, at(SECOND));
            poller.answered(at(SECOND), Index(7));
            poll(&mut poller, at(SECOND));
            let later = at(SECOND + after * SECOND);
            poller.answered(later, Index(index));
            assert_eq!(
                poll(&mut poller, later),
                Some(next),
                "{index} after {after} s"
            );
        }
    }

    #[test]
    fn after_an_answer_without_an_index_the_next_read_comes_in_time() {
        let mut poller = poller();
        poller.start();
        poll(&mut poller, at(SECOND));
        poller.answered(at(SECOND), Index::ZERO);
        assert_eq!(poller.timeout(), Some(at(2 * SECOND)));
        assert_eq!(poll(&mut poller, at(2 * SECOND)), Some(START));
    }

    #[test]
    fn a_poll_under_way_serves_whoever_starts_again() {
        let mut poller = poller();
        poller.start();
        poll(&mut poller, at(SECOND));
        poller.pause();
        assert!(poller.is_polling());
        assert_eq!(poller.start(), Start::Resumed);
        poller.pause();
        poller.pause();
        poller.answered(at(SECOND), Index(7));
        assert!(poller.is_idle());
        assert_eq!(poller.start(), Start::Anew);
        poller.pause();
        assert!(poller.is_idle(), "nothing is under way");
    }

    #[test]
    fn failures_and_a_storm_of_changes_are_paced() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut poller = poller();
        poller.start();
        poll(&mut poller, at(SECOND));
        poller.failed(at(SECOND), &mut rng);
        assert!(poller.timeout().unwrap() > at(SECOND));
        let mut polls = 0;
        for millis in 2_000..12_000 {
            if poll(&mut poller, at(millis)).is_some() {
                polls += 1;
                poller.answered(at(millis), Index(millis));
            }
        }
        assert!((100..=121).contains(&polls), "{polls}");
    }

    #[test]
    fn a_watch_of_what_changes_all_the_time_looks_at_it_by_chance_until_nothing_changes() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut poller = poller();
        poller.start();
        let mut polls = Vec::new();
        for millis in 1_000..60_000 {
            if poll(&mut poller, at(millis)).is_some() {
                poller.answered(at(millis), Index(millis));
                if poller.spread(at(millis), Duration::from_millis(400), &mut rng) {
                    polls.push(millis);
                }
            }
        }
        let pauses = || polls.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(pauses().all(|pause| pause <= 400));
        assert!(pauses().any(|pause| pause > 300) && pauses().any(|pause| pause < 100));
        // A restarted reader does not come earlier.
        let due = poller.timeout();
        poller.pause();
        poller.start();
        assert_eq!(poller.timeout(), due);
        let sent = due.expect("a poll");
        assert!(poll(&mut poller, sent).is_some());
        let late = sent + Duration::from_millis(401);
        poller.answered(late, Index(70_000));
        assert!(!poller.spread(late, Duration::from_millis(400), &mut rng));
        assert!(poll(&mut poller, late).is_some(), "at once");
    }
}
