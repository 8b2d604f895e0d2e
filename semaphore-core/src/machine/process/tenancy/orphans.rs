//! Sessions that may exist without being known, because the answer to their creation was lost.
//! Their TTL ends them.
//!
//! Two may come to exist at once, or as many as are requested at the same time. After that there is
//! one attempt in a third of the TTL, until one is answered. Consul ends a session within twice its
//! TTL, so at most six more exist at a time: eight for a participant with two callers, and fourteen
//! for one with many, which requests eight at a time. Nobody waits longer than twenty seconds, so
//! there are more if the TTL is longer than a minute.
//!
//! Source: Consul's documentation of sessions: without renewals a session ends after its TTL, at
//! the latest after twice its TTL.
//!
//! They can't be searched for: names are for people, and other participants use the same.

use core::time::Duration;
use std::collections::VecDeque;

use crate::api::CreateSession;
use crate::error::RequestError;
use crate::http::Response;
use crate::time::Instant;

/// The longest pause.
const LONGEST_REST: Duration = Duration::from_secs(20);

/// This many don't prevent further creations.
const UNBOUND: usize = 2;

#[derive(Clone, Debug, Default)]
pub(in crate::machine) struct Orphans {
    /// When Consul will have ended them.
    ends: VecDeque<Instant>,
    rests_until: Option<Instant>,
}

impl Orphans {
    /// Whether a session may be requested.
    pub(in crate::machine) fn may_create(&self, now: Instant) -> bool {
        self.rests_until.is_none_or(|until| until <= now)
    }

    /// When the next one may be requested.
    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        self.rests_until
    }

    /// One was requested.
    pub(in crate::machine) fn asked(&mut self, now: Instant, ttl: Duration) {
        self.ends.retain(|end| now < *end);
        self.rests_until = (self.ends.len() >= UNBOUND).then_some(now + rest(ttl));
    }

    /// The outcome.
    pub(in crate::machine) fn answered(
        &mut self,
        now: Instant,
        sent_at: Instant,
        answer: Result<&Response, &RequestError>,
        ttl: Duration,
    ) {
        let is_made = answer.is_ok_and(|response| CreateSession::parse(response).is_ok());
        if is_made || !may_have_made(answer) {
            // A refusal is retried at its own pace.
            self.rests_until = None;
            return;
        }
        self.ends.retain(|end| now < *end);
        self.ends.push_back(now + ttl * 2);
        let rest = (self.ends.len() >= UNBOUND).then_some(sent_at + rest(ttl));
        self.rests_until = self.rests_until.max(rest);
    }
}

fn rest(ttl: Duration) -> Duration {
    (ttl / 3).min(LONGEST_REST)
}

/// Whether a creation without an id may have created a session. Consul itself says if it has not; a
/// proxy does not know.
fn may_have_made(answer: Result<&Response, &RequestError>) -> bool {
    match answer {
        Ok(response) => matches!(response.status(), 200..=299 | 502..=504),
        Err(error) => !error.was_not_applied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{TransportError, TransportErrorKind};

    const TTL: Duration = Duration::from_secs(15);

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    fn lose(orphans: &mut Orphans, sent_at: u64) {
        let error = TransportError::new(TransportErrorKind::Unknown);
        let error = RequestError::Transport(error);
        orphans.answered(at(sent_at), at(sent_at), Err(&error), TTL);
    }

    #[test]
    fn from_the_third_on_one_is_asked_for_in_a_third_of_the_ttl() {
        let mut orphans = Orphans::default();
        let mut asked = Vec::new();
        for now in (0..60).map(at) {
            if orphans.may_create(now) {
                orphans.asked(now, TTL);
                asked.push(now);
                let error = TransportError::new(TransportErrorKind::Timeout);
                orphans.answered(now, now, Err(&RequestError::Transport(error)), TTL);
            }
        }
        let all: Vec<_> = [0, 1]
            .into_iter()
            .chain((6..60).step_by(5))
            .map(at)
            .collect();
        assert_eq!(asked, all);
        for from in &asked {
            let within = asked
                .iter()
                .filter(|it| (*from..*from + TTL * 2).contains(it));
            assert!(within.count() <= 8);
        }
    }

    #[test]
    fn those_who_ask_at_once_when_two_are_lost_take_turns() {
        let mut orphans = Orphans::default();
        lose(&mut orphans, 0);
        lose(&mut orphans, 0);
        assert!(!orphans.may_create(at(4)));
        assert!(orphans.may_create(at(5)));
        orphans.asked(at(5), TTL);
        assert!(!orphans.may_create(at(5)), "the second one of them");
        let id = r#"{"ID":"4ca8e74b-6350-7587-addf-a18084928f3c"}"#;
        orphans.answered(at(5), at(5), Ok(&Response::new(200, id)), TTL);
        assert!(orphans.may_create(at(5)), "answers come again");
    }

    #[test]
    fn what_consul_refuses_makes_none() {
        let mut orphans = Orphans::default();
        for (status, text) in [
            (500, "No cluster leader"),
            (403, "Permission denied"),
            (429, "rate limit exceeded"),
            (404, "<html>"),
        ] {
            for _ in 0..3 {
                orphans.answered(at(0), at(0), Ok(&Response::new(status, text)), TTL);
            }
        }
        let refused = RequestError::Transport(TransportError::new(TransportErrorKind::NotSent));
        for _ in 0..3 {
            orphans.answered(at(0), at(0), Err(&refused), TTL);
        }
        assert!(orphans.may_create(at(0)));
        orphans.answered(
            at(0),
            at(0),
            Ok(&Response::new(504, "Gateway Timeout")),
            TTL,
        );
        orphans.answered(at(0), at(0), Ok(&Response::new(200, "garbage")), TTL);
        assert!(!orphans.may_create(at(0)));
    }

    #[test]
    fn who_is_refused_after_two_were_lost_need_not_rest() {
        let mut orphans = Orphans::default();
        lose(&mut orphans, 0);
        lose(&mut orphans, 0);
        orphans.asked(at(5), TTL);
        let missing = Response::new(500, "Missing node registration");
        orphans.answered(at(5), at(5), Ok(&missing), TTL);
        assert!(orphans.may_create(at(5)));
    }

    #[test]
    fn nobody_rests_for_longer_than_twenty_seconds() {
        let mut orphans = Orphans::default();
        let day = Duration::from_secs(24 * 60 * 60);
        let error = RequestError::Transport(TransportError::new(TransportErrorKind::Timeout));
        for _ in 0..2 {
            orphans.answered(at(0), at(0), Err(&error), day);
        }
        assert_eq!(orphans.timeout(), Some(at(20)));
    }

    #[test]
    fn what_has_ended_by_its_ttl_counts_no_more() {
        let mut orphans = Orphans::default();
        lose(&mut orphans, 0);
        lose(&mut orphans, 1);
        orphans.asked(at(32), TTL);
        assert!(orphans.may_create(at(32)));
    }
}
