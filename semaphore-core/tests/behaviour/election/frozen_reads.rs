//! An agent takes every write, but always shows the old state: there must be no hot loop (L3).

use semaphore_core::LockKey;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Candidate, ElectionSettings, Instant, Response};
use transport_mock::RequestKind;
use transport_mock::consul::Consul;

use crate::support::election::*;
use crate::support::*;

/// Fuzzing found this.
#[test]
fn a_key_that_never_shows_what_was_written_is_written_twice_a_second_at_most() {
    let settings = ElectionSettings::new(LockKey::new(KEY).expect("a key"));
    let mut candidate = Candidate::new(settings, 1);
    let mut consul = Consul::new(1);
    let mut now = Instant::from_origin(secs(1));
    candidate.campaign(now, None).expect("accepted");
    let mut writes = 0;
    for _ in 0..8_000 {
        now = now + millis(1);
        consul.handle_timeout(now);
        candidate.handle_timeout(now);
        while let Some(transmit) = candidate.poll_transmit(now) {
            let kind = RequestKind::of(&transmit.request);
            writes += u32::from(kind == crate::election::unknown::ACQUISITION);
            assert!(writes < 100, "it writes without end");
            let honest = consul.submit(now, &transmit.request);
            let frozen = Response::new(404, "").with_header("X-Consul-Index", "1");
            let answers = std::iter::from_fn(|| consul.poll_answer());
            let answer = answers
                .into_iter()
                .find(|(exchange, _)| *exchange == honest);
            let answer = match kind {
                RequestKind::KvRead | RequestKind::KvWatch => frozen,
                // The key is left out, as for a token that may not read it.
                RequestKind::Txn => Response::new(200, r#"{"Results":[],"Errors":null}"#),
                _ => answer.expect("an answer").1,
            };
            candidate.handle_response(now, transmit.id, Ok(answer));
        }
    }
    assert!((2..=17).contains(&writes), "{writes} writes in 8 s");
}
