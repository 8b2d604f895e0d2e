//! What goes first when an agent limits the requests of a second.
//!
//! Source: `limits.request_limits` (Consul 1.15). A renewal counts as a write, like a claim. So
//! after the limit has refused a renewal, nothing else is sent until a renewal is served: it gets
//! the next free request.

use core::time::Duration;

use crate::http::{Priority, Response};
use crate::time::Instant;
use crate::transport::TransportError;

/// Whether only renewals are sent.
#[derive(Debug, Default)]
pub(super) struct Rates {
    renewals_only_until: Option<Instant>,
}

impl Rates {
    /// A request of this priority was answered.
    pub(super) fn answered(&mut self, now: Instant, priority: Priority, is_refused: bool) {
        if priority != Priority::Renewal {
            return;
        }
        if is_refused && self.renewals_only_until.is_none() {
            tracing::debug!(name: "rate-limited", "the agent serves too few requests a second: all but renewals wait");
        }
        self.renewals_only_until = is_refused.then_some(now + LONGEST);
    }

    /// Whether a request of this priority may be sent.
    pub(super) fn allows(&self, now: Instant, priority: Priority) -> bool {
        priority == Priority::Renewal || self.waits_until(now).is_none()
    }

    /// Until when everything else waits.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.renewals_only_until.filter(|until| now < *until)
    }
}

/// Whether an agent's rate limit refused the request.
pub(super) fn is_refused(answer: &Result<Response, TransportError>) -> bool {
    const SAID: &[u8] = b"rate limit exceeded";
    answer.as_ref().is_ok_and(|it| {
        matches!(it.status(), 429 | 503) && it.body().windows(SAID.len()).any(|part| part == SAID)
    })
}

/// The longest wait between two attempts of one renewal, plus a fifth. After it a renewal that was
/// given up delays nobody.
const LONGEST: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use crate::connections::rates::*;

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    #[test]
    fn all_else_waits_until_a_renewal_is_served_or_was_given_up() {
        let mut rates = Rates::default();
        rates.answered(at(0), Priority::Write, true);
        assert!(rates.allows(at(0), Priority::Read));
        rates.answered(at(0), Priority::Renewal, true);
        assert!(rates.allows(at(1), Priority::Renewal));
        assert!(!rates.allows(at(1), Priority::Write));
        assert!(!rates.allows(at(5), Priority::Poll { ahead: 0 }));
        assert!(rates.allows(at(6), Priority::Write));
        rates.answered(at(7), Priority::Renewal, true);
        rates.answered(at(8), Priority::Renewal, false);
        assert!(rates.allows(at(8), Priority::Write));
    }

    #[test]
    fn only_a_rate_limit_is_one() {
        let answer = |status, text: &str| Ok(Response::new(status, text.to_owned()));
        for (status, text, expected) in [
            (
                429,
                "rate limit exceeded, try again later or against a different server",
                true,
            ),
            (
                503,
                "rate limit exceeded for operation that can only be performed by the leader, try again later",
                true,
            ),
            (
                429,
                "Your IP is issuing too many concurrent connections, please rate limit your calls",
                false,
            ),
            (503, "no server", false),
            (500, "rate limit exceeded", false),
        ] {
            assert_eq!(
                is_refused(&answer(status, text)),
                expected,
                "{status} {text}"
            );
        }
    }
}
