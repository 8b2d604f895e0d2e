//! Sessions of former contenders, kept for the next turn while one is expected: somebody waits, or
//! the last caller came back soon after a release. Without a next turn they are destroyed.
//!
//! Creating and destroying a session are two writes of Consul's log (`cost` in the tests of
//! behaviour counts them).

use core::time::Duration;

use crate::machine::semaphore::contender::Spare;
use crate::time::Instant;

/// How soon after a release the next acquisition must come to be expected, and how long a session
/// is kept for it.
const SOON: Duration = Duration::from_secs(1);

/// How long a turn waits for the session of a contender that is leaving. A release takes one request, and so does making a session, so
/// the wait costs nothing. A release that is held up for longer is not waited for.
pub(super) const LEAVING: Duration = Duration::from_millis(100);

/// The most kept sessions: as many as turns can follow one another at a high limit. Each is kept
/// for a second, and costs at most one renewal in that time.
const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Spares {
    kept: Vec<Spare>,
    /// When they are no longer needed.
    until: Option<Instant>,
    /// Until when a turn waits for a session that is about to be free.
    expected_until: Option<Instant>,
    released_at: Option<Instant>,
    next: Next,
}

/// Whether another turn is expected soon after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Unlikely,
    Likely,
    /// Nobody will want a slot any more.
    Never,
}

impl Spares {
    /// Somebody wants a slot.
    pub(super) fn wanted_at(&mut self, now: Instant) {
        let is_soon = |at: Instant| now.saturating_since(at) <= SOON;
        self.next = match self.next {
            Next::Never => Next::Never,
            _ if self.released_at.is_some_and(is_soon) => Next::Likely,
            _ => Next::Unlikely,
        };
    }

    /// Somebody gives a slot back. `is_awaited` says whether one of ours waits for whom there is no contender yet. Returns
    /// whether the slot's session should be kept.
    pub(super) fn released_at(&mut self, now: Instant, is_awaited: bool) -> bool {
        self.released_at = Some(now);
        self.are_of_use(is_awaited)
    }

    /// Whether another one would be useful: a turn is expected, or awaited.
    pub(super) fn are_of_use(&self, is_awaited: bool) -> bool {
        let is_likely = match self.next {
            Next::Likely => true,
            Next::Unlikely => is_awaited,
            Next::Never => false,
        };
        is_likely && self.kept.len() < MOST
    }

    /// Nobody will want a slot any more.
    pub(super) fn close(&mut self, now: Instant) {
        self.next = Next::Never;
        self.until = self.until.map(|_| now);
    }

    pub(super) fn keep(&mut self, now: Instant, spare: Spare) {
        self.kept.push(spare);
        let is_of_use = self.next != Next::Never;
        self.until = Some(if is_of_use { now + SOON } else { now });
    }

    /// A turn waits until then for a session that is about to be free, or none does.
    pub(super) fn expect(&mut self, until: Option<Instant>) {
        self.expected_until = until;
    }

    /// The one that was kept last: its lease is the newest.
    pub(super) fn take(&mut self) -> Option<Spare> {
        let spare = self.kept.pop();
        if self.kept.is_empty() {
            self.until = None;
        }
        spare
    }

    /// Those that are no longer needed.
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
        self.until.into_iter().chain(self.expected_until).min()
    }
}

#[cfg(test)]
mod tests {
    use crate::http::Response;
    use crate::id::{Index, SessionId};
    use crate::machine::fixture::{A, B, C, at, settings};
    use crate::machine::process::tenancy::loan::Belief;
    use crate::machine::process::tenancy::session::Session;
    use crate::machine::semaphore::spare::*;

    /// A session with this id.
    fn spare(id: &str) -> Spare {
        let settings = settings();
        let mut made = Session::new(&settings.session);
        let (no, _) = made.transmit(at(0), &settings.session).unwrap();
        let response = Response::new(200, format!(r#"{{"ID":"{id}"}}"#));
        let mut rng = fastrand::Rng::with_seed(1);
        made.handle(
            at(0),
            no,
            Ok(&response),
            Belief::Answered,
            &settings.session,
            &mut rng,
        );
        Spare::new(made, Index::ZERO)
    }

    fn ids(spares: &[Spare]) -> Vec<&str> {
        let ids = spares.iter().filter_map(|spare| spare.session().id());
        ids.map(SessionId::as_str).collect()
    }

    /// Somebody came back soon after a release.
    fn expecting() -> Spares {
        let mut spares = Spares::default();
        spares.wanted_at(at(0));
        spares.released_at(at(10), false);
        spares.wanted_at(at(20));
        spares
    }

    #[test]
    fn nothing_is_kept_until_somebody_came_back() {
        let mut spares = Spares::default();
        assert!(!spares.released_at(at(0), false));
        spares.wanted_at(at(500));
        assert!(spares.released_at(at(600), false));
    }

    #[test]
    fn it_is_kept_for_somebody_who_waits() {
        let mut spares = Spares::default();
        assert!(spares.released_at(at(0), true));
        spares.close(at(1));
        assert!(!spares.released_at(at(2), true));
    }

    #[test]
    fn whoever_comes_back_within_a_second_is_expected_again() {
        for (after, expected) in [(0, true), (1_000, true), (1_001, false)] {
            let mut spares = expecting();
            spares.released_at(at(5_000), false);
            spares.wanted_at(at(5_000 + after));
            assert_eq!(spares.released_at(at(9_000), false), expected, "{after}");
        }
    }

    #[test]
    fn the_first_turn_after_none_is_not_expected() {
        let mut spares = Spares::default();
        spares.wanted_at(at(0));
        assert!(!spares.released_at(at(1), false));
    }

    #[test]
    fn no_more_is_kept_than_the_most() {
        let mut spares = expecting();
        for kept in 0..MOST {
            assert!(spares.released_at(at(30), false), "{kept}");
            spares.keep(at(30), spare(A));
        }
        assert!(!spares.released_at(at(30), false));
        assert!(spares.take().is_some());
        assert!(spares.released_at(at(30), false), "there is room again");
    }

    #[test]
    fn what_is_kept_beyond_the_most_is_of_no_use_at_once() {
        let mut spares = expecting();
        for _ in 0..MOST {
            spares.keep(at(30), spare(A));
        }
        assert!(spares.take_expired(at(30)).is_empty());
        spares.keep(at(30), spare(B));
        assert_eq!(ids(&spares.take_expired(at(30))), [B]);
    }

    #[test]
    fn the_one_that_was_kept_last_is_taken_first() {
        let mut spares = expecting();
        for (when, id) in [(10, A), (20, B), (30, C)] {
            spares.keep(at(when), spare(id));
        }
        for id in [C, B, A] {
            assert!(!spares.is_empty());
            assert_eq!(ids(&[spares.take().unwrap()]), [id]);
        }
        assert!(spares.take().is_none());
        assert!(spares.is_empty());
        assert_eq!(spares.timeout(), None, "nothing is due any more");
    }

    #[test]
    fn all_are_of_no_more_use_a_second_after_the_last_was_kept() {
        let mut spares = expecting();
        spares.keep(at(100), spare(A));
        assert_eq!(spares.timeout(), Some(at(1_100)));
        spares.keep(at(600), spare(B));
        assert_eq!(spares.timeout(), Some(at(1_600)));
        assert_eq!(ids(&spares.take_expired(at(1_599))), [""; 0]);
        assert_eq!(ids(&spares.take_expired(at(1_600))), [A, B]);
        assert!(spares.is_empty());
        assert_eq!(spares.timeout(), None);
        assert_eq!(ids(&spares.take_expired(at(9_000))), [""; 0]);
    }

    #[test]
    fn whoever_closes_keeps_nothing() {
        let mut spares = expecting();
        spares.keep(at(100), spare(A));
        spares.close(at(200));
        assert_eq!(spares.timeout(), Some(at(200)));
        assert_eq!(ids(&spares.take_expired(at(200))), [A]);
        spares.wanted_at(at(210));
        assert!(!spares.released_at(at(220), false));
        // One that was about to be kept.
        spares.keep(at(230), spare(B));
        assert_eq!(ids(&spares.take_expired(at(230))), [B]);
    }

    #[test]
    fn closing_when_nothing_is_kept_makes_nothing_due() {
        let mut spares = Spares::default();
        spares.close(at(200));
        assert_eq!(spares.timeout(), None);
        assert!(spares.is_empty());
    }
}
