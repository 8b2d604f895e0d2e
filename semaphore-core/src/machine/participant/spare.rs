//! Sessions of contenders that have left, kept for the next turn for as long as there is reason to
//! expect one: the caller before came back soon after a release. Without a next turn they are destroyed.

use core::time::Duration;

use crate::machine::contender::Spare;
use crate::time::Instant;

/// How soon after a release the next acquisition comes where another one is expected, and how long
/// a session is kept for it.
const SOON: Duration = Duration::from_secs(1);

/// How many sessions are kept at most.
const MOST: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Spares {
    kept: Vec<Spare>,
    /// When they are of no more use.
    until: Option<Instant>,
    released_at: Option<Instant>,
    is_expected: bool,
    is_closed: bool,
}

impl Spares {
    /// Somebody wants a slot.
    pub(super) fn wanted_at(&mut self, now: Instant) {
        let is_soon = |at: Instant| now.saturating_since(at) <= SOON;
        self.is_expected = self.released_at.is_some_and(is_soon);
    }

    /// Somebody gives a slot back. Says whether its session should be kept.
    pub(super) fn released_at(&mut self, now: Instant) -> bool {
        self.released_at = Some(now);
        self.is_expected && !self.is_closed && self.kept.len() < MOST
    }

    /// Nobody will want a slot any more.
    pub(super) fn close(&mut self, now: Instant) {
        self.is_closed = true;
        self.until = self.until.map(|_| now);
    }

    pub(super) fn keep(&mut self, now: Instant, spare: Spare) {
        self.kept.push(spare);
        self.until = Some(if self.is_closed { now } else { now + SOON });
    }

    /// The one that was kept last: its lease is the newest.
    pub(super) fn take(&mut self) -> Option<Spare> {
        let spare = self.kept.pop();
        if self.kept.is_empty() {
            self.until = None;
        }
        spare
    }

    /// Those that are of no more use.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<Spare> {
        if self.until.is_none_or(|until| until > now) {
            return self.kept.split_off(self.kept.len().min(MOST));
        }
        self.until = None;
        core::mem::take(&mut self.kept)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.until
    }
}
