//! Answers that no Consul gives. Nothing panics, no such answer is believed, and the next good one
//! counts.

use semaphore_core::LockKey;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    Candidate, ElectionSettings, Event, Instant, RequestId, Response, TransportError,
    TransportErrorKind,
};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::election::unknown::ACQUISITION;
use crate::support::election::*;
use crate::support::*;

const SESSION: &str = "aaaaaaaa-0000-0000-0000-000000000000";

/// Answers from anywhere.
fn garbage() -> Vec<Response> {
    let bodies = [
        "",
        "null",
        "true",
        "false",
        "[]",
        "[null]",
        "{}",
        "<html>",
        r#"{"ID":"aaaaaaaa-0000-0000-0000-000000000000"}"#,
        r#"[{"TTL":"15s"}]"#,
        r#"[{"Key":"other","Session":"x","Value":"!"}]"#,
        r#"[{"Key":"service/db/leader","Session":"aaaaaaaa-0000-0000-0000-000000000000","LockIndex":18446744073709551615,"ModifyIndex":18446744073709551615,"CreateIndex":1,"Flags":3304740253564472344,"Value":"YQ=="}]"#,
        r#"{"Results":null,"Errors":null}"#,
        r#"{"Results":[{"KV":{"Key":"service/db/leader","Session":""}}],"Errors":null}"#,
        r#"{"Results":null,"Errors":[{"OpIndex":7,"What":""}]}"#,
        "invalid session \"x\"",
        "Session id 'x' not found",
    ];
    let mut all = Vec::new();
    for status in [200, 301, 400, 403, 404, 409, 429, 500, 503] {
        for body in bodies {
            for index in ["", "0", "7", "18446744073709551615", "-1"] {
                let response = Response::new(status, body);
                all.push(response.with_header("X-Consul-Index", index));
            }
        }
    }
    all
}

#[test]
fn no_sequence_of_answers_makes_it_panic_or_lead_without_a_session() {
    let garbage = garbage();
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let settings = ElectionSettings::new(LockKey::new(KEY).expect("a key"));
        let mut candidate = Candidate::new(settings, seed);
        let mut now = Instant::from_origin(secs(1));
        let mut asked: Vec<RequestId> = Vec::new();
        let mut had_session = false;
        let mut campaign = candidate.campaign(now, None).expect("accepted");
        for _ in 0..300 {
            candidate.handle_timeout(now);
            let mut sent = 0;
            while let Some(transmit) = candidate.poll_transmit(now) {
                asked.push(transmit.id);
                sent += 1;
                assert!(sent < 10, "it sends without end");
            }
            while candidate.poll_abort().is_some() {}
            while let Some(event) = candidate.poll_event() {
                match event {
                    Event::Granted { grant: term, .. } => {
                        assert!(had_session);
                        assert_eq!(term.sequencer.session.as_str(), SESSION);
                    }
                    Event::Failed { .. } | Event::Lost { .. } => {
                        candidate.cancel(now, campaign);
                        campaign = candidate.campaign(now, None).expect("accepted");
                    }
                    _ => {}
                }
            }
            if !asked.is_empty() {
                let id = asked.swap_remove(rng.usize(..asked.len()));
                let answer = garbage[rng.usize(..garbage.len())].clone();
                had_session |= String::from_utf8_lossy(answer.body()).contains(SESSION);
                let lost = Err(TransportError::new(TransportErrorKind::Timeout));
                let result = if rng.u8(..8) == 0 { lost } else { Ok(answer) };
                candidate.handle_response(now, id, result.clone());
                candidate.handle_response(now, id, result);
            }
            let change = semaphore_core::sans_io::Value::new("b").expect("small");
            match rng.u8(..40) {
                0 => candidate.release(now, campaign),
                1 => drop(candidate.set_value(now, campaign, &change)),
                2 => candidate.cancel(now, campaign),
                3 => drop(candidate.try_campaign(now)),
                4 => campaign = candidate.campaign(now, None).expect("accepted"),
                _ => {}
            }
            now = now + millis(rng.u64(..2_000));
        }
    }
}

#[test]
fn one_answer_that_is_garbage_costs_no_leadership() {
    let kinds = [
        RequestKind::SessionRenew,
        RequestKind::KvWatch,
        RequestKind::KvRead,
        ACQUISITION,
    ];
    for kind in kinds {
        for body in ["", "<html>", "[7]", "{\"Results\":7}"] {
            let world = MockConsul::new(1);
            let garbage =
                Fault::Answer(Response::new(200, body).with_header("X-Consul-Index", "9"));
            let (_a, leadership) = leader(&world);
            world.inject(Rule::new(garbage).kind(kind).times(2));
            if kind == RequestKind::KvRead {
                // The candidate only reads if an outcome is unknown.
                world.inject(Rule::new(Fault::LoseAnswer).kind(ACQUISITION));
            }
            world.run(leadership.set_value("b")).expect("set");
            world.advance(secs(60));
            assert!(leadership.is_leader(), "{kind} {body}");
            assert_eq!(found(&world).expect("a key").value, "b");
        }
    }
}
