//! The way out of Consul for a candidacy: how long a release waits for it, and how
//! it continues in the background (L2).
//!
//! ```text
//!  begin ──▶ in order ──── nothing is left, or can be done ────────────────────▶ over
//!               │ its time is over, or Consul refuses a step for now              ▲
//!               ▼ (whose it was is told why)                                      │
//!            in the background: tried again, with a rest after each failure ──────┘
//! ```
//! A step that Consul refuses for good is left out, and the others follow at once: the refusal of one says nothing
//! about the next.
//!
//! Source: Consul expires a session at the latest after twice its TTL (docs/CONSUL.md, "What ends a
//! session"). So nobody waits longer than that for a way out: by then the session is gone, or
//! Consul can't be asked. What is still refused then is given up.

use core::time::Duration;

use crate::error::RequestError;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Departure {
    /// When the caller is told that it takes longer.
    until: Instant,
    /// Why it could not leave properly.
    failure: Option<RequestError>,
    course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Somebody may wait for its end.
    InOrder,
    /// Nobody does: it takes longer.
    InBackground,
}

impl Departure {
    pub(super) fn begin(now: Instant, settings: &SessionSettings) -> Self {
        Self {
            until: now + settings.cleanup_time(),
            failure: None,
            course: Course::InOrder,
        }
    }

    pub(super) fn began_at(&self, settings: &SessionSettings) -> Instant {
        self.until - settings.cleanup_time()
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Why it could not leave properly, if it could not.
    pub(super) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    /// Whether it goes on in the background: whose it was is told why.
    pub(super) fn is_in_background(&self) -> bool {
        self.course == Course::InBackground
    }

    /// A step is left out, for this reason. An earlier reason stays.
    pub(super) fn skipped(&mut self, failure: RequestError) {
        self.failure.get_or_insert(failure);
    }

    /// It takes longer, for this reason. An earlier reason stays.
    pub(super) fn held_up(&mut self, failure: RequestError) {
        self.skipped(failure);
        self.course = Course::InBackground;
    }

    /// A step is refused, for this reason, which replaces an earlier one.
    pub(super) fn refused(&mut self, failure: RequestError) {
        self.failure = Some(failure);
    }

    /// Whether it is given up after this failure: it is refused, and its session is gone before the next attempt.
    /// After silence it goes on, since Consul ends no session without a leader. So it does on a session that others
    /// may use: that one lives on, and what is left on it would stay as long.
    pub(super) fn ends_with(
        &self,
        failure: &RequestError,
        now: Instant,
        settings: &SessionSettings,
    ) -> bool {
        let next = rest_after_failure(self.began_at(settings), now, settings);
        failure.is_refusal() && !settings.shares_sessions() && self.until <= next
    }
}

/// Until when nothing is sent for what was left behind, after a request has failed now.
///
/// The caller was told, and only others wait for the slot or the key. So the rest is an eighth of
/// the time that it has tried. After an outage of 38 s it continues within 5 s, and an endless
/// failure costs one request a minute.
pub(super) fn rest_after_failure(
    began_at: Instant,
    now: Instant,
    settings: &SessionSettings,
) -> Instant {
    let tried_for = now.saturating_since(began_at);
    now + (tried_for / 8).clamp(settings.retry_cap(), LONGEST_REST)
}

const LONGEST_REST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::SessionOptions;
    use crate::machine::fixture::at;
    use crate::transport::{TransportError, TransportErrorKind};

    fn settings() -> SessionSettings {
        SessionSettings::new(SessionOptions::default())
    }

    #[test]
    fn the_first_reason_is_told_unless_a_refusal_takes_its_place() {
        let denied = |text: &str| RequestError::Denied {
            text: text.into(),
            asked: crate::asked::Asked::default(),
        };
        let mut departure = Departure::begin(at(1_000), &settings());
        assert_eq!(departure.until(), at(31_000), "twice the TTL");
        assert_eq!(departure.began_at(&settings()), at(1_000));
        departure.skipped(denied("first"));
        assert!(!departure.is_in_background());
        departure.held_up(denied("second"));
        assert!(departure.is_in_background());
        let told = |it: &Departure| it.failure().map(ToString::to_string).unwrap_or_default();
        assert!(told(&departure).contains("first"));
        departure.refused(denied("third"));
        assert!(told(&departure).contains("third"));
    }

    #[test]
    fn what_is_refused_is_given_up_with_its_session_and_silence_is_not() {
        let departure = Departure::begin(at(1_000), &settings());
        let denied = RequestError::Denied {
            text: "<html>".into(),
            asked: crate::asked::Asked::default(),
        };
        let ends_with =
            |failure: &RequestError, now| departure.ends_with(failure, at(now), &settings());
        assert!(!ends_with(&denied, 20_000));
        assert!(
            ends_with(&denied, 28_000),
            "the next attempt would come after 31 s"
        );
        let silence = TransportError::new(TransportErrorKind::Timeout);
        assert!(!ends_with(&RequestError::Transport(silence), 100_000));
    }

    #[test]
    fn rests_grow_with_the_time_that_was_tried_to_a_minute() {
        let rest = |tried_for: u64| {
            let now = at(1_000 + tried_for);
            rest_after_failure(at(1_000), now, &settings()).saturating_since(now)
        };
        assert_eq!(rest(0), settings().retry_cap());
        assert_eq!(rest(40_000), Duration::from_secs(5));
        assert_eq!(rest(10_000_000), Duration::from_secs(60));
    }
}
