//! What outlasts a campaign: what is known of the key, and the session, where another campaign is expected soon.
//!
//! To make and to destroy a session are two writes of Consul's log. Where campaigns follow one another within half a second, as in a loop
//! of `campaign_timeout` or of short terms, the session is kept for the next one.

use core::time::Duration;

use crate::machine::process::reader::pause::Pause;
use crate::time::Instant;

/// How soon after a campaign the next one comes where another one is expected, and how long a session is kept for it.
const SOON: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(super) struct Between {
    /// No new candidacy before it is over.
    pub(super) respawn: Pause,
    pub(super) key: Acquaintance,
    next: Next,
    /// When a campaign or a term ended here last.
    ended_at: Option<Instant>,
    /// Until when a session is kept that nobody campaigns with.
    kept_until: Option<Instant>,
}

/// What is known of the key as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquaintance {
    /// It has not been seen. What is no election's then never was one: a wrong key, most likely.
    Unknown,
    /// It has been seen as an election's, or missing. What becomes something else may become an election's again.
    Election,
    /// It has become something else, which has been told.
    Overwritten,
}

/// Whether another campaign is expected soon after one.
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
            ended_at: None,
            kept_until: None,
        }
    }

    /// Somebody campaigns.
    pub(super) fn wanted(&mut self, now: Instant) {
        let is_soon = |at: Instant| now.saturating_since(at) <= SOON;
        self.next = match self.next {
            Next::Never => Next::Never,
            _ if self.ended_at.is_some_and(is_soon) => Next::Likely,
            _ => Next::Unlikely,
        };
    }

    /// A campaign or a term has ended.
    pub(super) fn ended(&mut self, now: Instant) {
        self.ended_at = Some(now);
    }

    /// Nobody will campaign any more.
    pub(super) fn close(&mut self) {
        self.next = Next::Never;
    }

    /// Whether a session is worth keeping that nobody campaigns with.
    pub(super) fn expects_another(&self) -> bool {
        self.next == Next::Likely
    }

    /// Whether nobody will campaign any more.
    pub(super) fn is_closed(&self) -> bool {
        self.next == Next::Never
    }

    pub(super) fn keep(&mut self, now: Instant) {
        self.kept_until = Some(now + SOON);
    }

    pub(super) fn is_keeping(&self) -> bool {
        self.kept_until.is_some()
    }

    /// Whether it is kept still.
    pub(super) fn keeps(&self, now: Instant) -> bool {
        self.kept_until.is_some_and(|until| now < until) && !self.is_closed()
    }

    /// It is of use again, or of no more use. Says whether it was kept.
    pub(super) fn take(&mut self) -> bool {
        self.kept_until.take().is_some()
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.kept_until
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
            assert!(!between.expects_another(), "the first");
            between.ended(at(5_000));
            between.wanted(at(5_000 + after));
            assert_eq!(between.expects_another(), expected, "{after}");
        }
    }

    #[test]
    fn what_is_kept_is_kept_for_half_a_second_and_not_beyond_the_end() {
        let mut between = Between::new(SOON);
        between.keep(at(5_000));
        assert!(between.keeps(at(5_499)));
        assert!(!between.keeps(at(5_500)));
        between.close();
        assert!(!between.keeps(at(5_000)));
        assert!(between.take());
        assert!(!between.take());
    }
}
