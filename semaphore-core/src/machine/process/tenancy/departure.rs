//! The way out of Consul, for a contender or a candidacy: how long a release waits for it, and how
//! it continues in the background (L2).
//!
//! ```text
//!  begin ──▶ in order ──── nothing is left ────────────────────────────────────▶ over
//!               │ its time is over, or Consul refuses a step                      ▲
//!               ▼ (whose it was is told why)                                      │
//!            in the background: tried again, with a rest after each failure ──────┘
//! ```
//! Source: Consul expires a session at the latest after twice its TTL (docs/CONSUL.md, "What ends a
//! session"). So nobody waits longer than that for a way out: by then the session is gone, or
//! Consul can't be asked.

use core::time::Duration;

use crate::error::RequestError;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Departure {
    /// When the caller is told that it takes longer.
    until: Instant,
    /// Why it could not leave properly.
    failure: Option<RequestError>,
}

impl Departure {
    pub(in crate::machine) fn begin(now: Instant, settings: &SessionSettings) -> Self {
        Self {
            until: now + settings.cleanup_time(),
            failure: None,
        }
    }

    pub(in crate::machine) fn began_at(&self, settings: &SessionSettings) -> Instant {
        self.until - settings.cleanup_time()
    }

    pub(in crate::machine) fn until(&self) -> Instant {
        self.until
    }

    /// Why it could not leave properly, if it could not.
    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    /// It can't leave properly, for this reason. An earlier reason stays.
    pub(in crate::machine) fn held_up(&mut self, failure: RequestError) {
        self.failure.get_or_insert(failure);
    }

    /// It can't leave properly, for this reason, which replaces an earlier one.
    pub(in crate::machine) fn refused(&mut self, failure: RequestError) {
        self.failure = Some(failure);
    }
}

/// Until when nothing is sent for what was left behind, after a request has failed now.
///
/// The caller was told, and only others wait for the slot or the key. So the rest is an eighth of
/// the time that it has tried. After an outage of 38 s it continues within 5 s, and an endless
/// failure costs one request a minute.
pub(in crate::machine) fn rest_after_failure(
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
        departure.held_up(denied("first"));
        departure.held_up(denied("second"));
        let told = |it: &Departure| it.failure().map(ToString::to_string).unwrap_or_default();
        assert!(told(&departure).contains("first"));
        departure.refused(denied("third"));
        assert!(told(&departure).contains("third"));
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
