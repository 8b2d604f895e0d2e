//! Answers that are not Consul's, or that make no sense. They cause a typed error or a retry, but
//! never a panic, and the record is never overwritten.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use fastrand::Rng;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    CommandId, Event, Instant, Participant, Request, RequestId, Response, TransportError,
    TransportErrorKind,
};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::aftermath::{assert_recovered, steps};
use crate::support::environment::number;
use crate::support::spy::Spy;
use crate::support::steps::{deletes_key, operations};
use crate::support::*;

const UUID: &str = "aaaaaaaa-0000-0000-0000-000000000000";

/// Bodies that no answer should have.
fn bodies() -> Vec<String> {
    let entry = |fields: &str| format!(r#"[{{"Key":"service/db/.lock",{fields}}}]"#);
    vec![
        String::new(),
        "null".into(),
        "garbage".into(),
        "<html><body>Please log in</body></html>".into(),
        "[".repeat(100_000),
        "{}".into(),
        "[{}]".into(),
        "[null]".into(),
        r#"{"ID":"not a uuid"}"#.into(),
        r#"{"ID":null}"#.into(),
        r#"[{"TTL":"-5s"}]"#.into(),
        r#"{"Results":null}"#.into(),
        r#"{"Results":[{"KV":null}],"Errors":null}"#.into(),
        r#"{"Results":[{"KV":{"Key":"service/db/.lock","ModifyIndex":"9"}}],"Errors":null}"#.into(),
        r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"key \"k\" exists"}]}"#.into(),
        r#"[{"TTL":"99999999999999999999h"}]"#.into(),
        "truefalse".into(),
        "1e999".into(),
        "\u{0}\u{0}\u{0}".into(),
        entry(r#""Flags":0,"Value":"eyJMaW1","ModifyIndex":9"#),
        entry(r#""Flags":0,"Value":7,"ModifyIndex":9"#),
        entry(r#""Flags":-1,"Value":null,"ModifyIndex":9"#),
        entry(r#""Flags":0,"Value":null,"ModifyIndex":99999999999999999999999"#),
        entry(r#""Flags":0,"Value":null,"ModifyIndex":"9""#),
    ]
}

#[test]
fn a_body_that_is_not_consuls_is_tried_again() {
    for step in steps() {
        for body in bodies() {
            let world = MockConsul::new(11);
            let answer = Response::new(200, body.clone());
            let answer = if step.is_write() {
                answer
            } else {
                answer.with_header("X-Consul-Index", "9")
            };
            world.inject(step.aim(Rule::new(Fault::Answer(answer)).times(2)));
            let semaphore = semaphore(&world, "a", 1);
            world.run(async {
                let what = || format!("{}: {body:.60}", step.0);
                // A body may look like a list with an invalid record.
                let permit = match semaphore.acquire().await {
                    Ok(permit) => permit,
                    Err(semaphore_core::Error::Conflict { .. }) => loop {
                        match semaphore.acquire().await {
                            Ok(permit) => break permit,
                            Err(semaphore_core::Error::Conflict { .. }) => {
                                world.sleep(secs(1)).await;
                            }
                            Err(error) => panic!("{} {error:?}", what()),
                        }
                    },
                    Err(error) => panic!("{} {error:?}", what()),
                };
                assert_eq!(holders(&world).len(), 1, "{}", what());
                // Its watch starts a little later.
                world.sleep(secs(2)).await;
                // A forged list may make the permit lost, but nobody else gets the slot.
                let _ = permit.release().await;
            });
            assert_recovered(&world, 1);
        }
    }
}

#[test]
fn an_index_that_is_none_is_tried_again() {
    for (index, times) in [
        (None, 3),
        (Some(""), 3),
        (Some("text"), 3),
        (Some("-1"), 3),
        (Some("1.5"), 3),
        (Some("18446744073709551616"), 3),
        (Some("0"), 3),
        // The largest index is valid, so it is believed. All later ones are lower.
        (Some("18446744073709551615"), 1),
    ] {
        for kind in [RequestKind::KvRead, RequestKind::KvWatch] {
            let world = MockConsul::new(11);
            let answer = Response::new(200, "[]");
            let answer = match index {
                Some(index) => answer.with_header("X-Consul-Index", index),
                None => answer,
            };
            let rule = Rule::new(Fault::Answer(answer)).kind(kind).times(times);
            // Nobody needs to read before it enters.
            let may_be_missed = kind == RequestKind::KvRead;
            world.inject(if may_be_missed { rule.optional() } else { rule });
            let semaphore = semaphore(&world, "a", 1);
            world.run(async {
                // An empty list without our key counts as the loss of the session. With separate
                // requests, its entry in the record is left alone for a minute.
                let permit = semaphore.acquire_timeout(secs(120)).await;
                let permit = permit.unwrap_or_else(|error| panic!("{index:?} {kind} {error:?}"));
                // A holder looks again after at most a second.
                world.sleep(secs(8)).await;
                let _ = permit.release().await;
            });
            assert_recovered(&world, 1);
        }
    }
}

#[test]
fn keys_of_odd_names_and_sessions_are_left_alone() {
    let world = MockConsul::new(11);
    let entry = |key: &str, session: &str| {
        format!(
            r#"{{"Key":"{key}","Session":"{session}","Value":"AA==","Flags":0,"LockIndex":1,"CreateIndex":1,"ModifyIndex":1}}"#
        )
    };
    let list = [
        entry("service/db/", UUID),
        entry("service/db/..", UUID),
        entry("service/db/not a uuid", "not a session"),
        entry(&format!("service/db/{UUID}/deeper"), UUID),
        entry("service/db/\u{1F600}\\u0000", ""),
        entry("elsewhere", UUID),
        entry("", ""),
        entry("service/db/.lock/", UUID),
    ];
    let body = format!("[{}]", list.join(","));
    let answer = Response::new(200, body).with_header("X-Consul-Index", "1");
    let spy = Spy::on(&world);
    world.inject(Rule::new(Fault::Answer(answer)).kind(RequestKind::KvRead));
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        // A try lists first.
        let permit = semaphore.try_acquire().await.expect("an answer");
        permit.expect("a slot").release().await.expect("released");
    });
    assert_eq!(spy.count(deletes_key), 1);
    assert_recovered(&world, 1);
}

/// `SEMAPHORE_FUZZ_SEEDS=10000` runs that many seeds instead of a hundred.
#[test]
fn no_answer_in_any_order_makes_a_participant_panic_spin_or_grow() {
    let mut grants = 0;
    for seed in 0..number("SEMAPHORE_FUZZ_SEEDS", 100) {
        // This line appears if something below panics.
        eprintln!("seed {seed}");
        grants += Fuzz::new(seed).run();
    }
    assert!(grants > 0, "some of what is made up makes sense");
}

struct Fuzz {
    rng: Rng,
    now: Instant,
    participant: Participant,
    open: Vec<(RequestId, semaphore_core::sans_io::Request)>,
    answered: VecDeque<RequestId>,
    acquisitions: Vec<CommandId>,
    sessions: Vec<String>,
    index: u64,
    grants: u64,
}

impl Fuzz {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = settings(PREFIX, rng.u32(1..=4)).with_limit_adopted(rng.bool());
        Self {
            now: Instant::from_origin(secs(rng.u64(..100))),
            participant: Participant::new(settings, seed),
            open: Vec::new(),
            answered: VecDeque::new(),
            acquisitions: Vec::new(),
            sessions: vec![UUID.to_owned()],
            index: 10,
            grants: 0,
            rng,
        }
    }

    fn run(mut self) -> u64 {
        for _ in 0..600 {
            match self.rng.u32(..12) {
                0 => self.command(),
                1 | 2 => self.let_time_pass(),
                3 => {
                    // A call without a reason.
                    self.participant.handle_timeout(self.now);
                }
                4 => self.answer_again(),
                _ => self.answer(),
            }
            self.drain();
        }
        let size = format!("{:?}", self.participant).len();
        assert!(size < 300_000, "{size} bytes of state");
        self.grants
    }

    fn command(&mut self) {
        let permits = self.rng.u32(..4);
        let known = self.rng.choice(&self.acquisitions).copied();
        let deadline = self.now + millis(self.rng.u64(..20_000));
        let deadline = self.rng.bool().then_some(deadline);
        let participant = &mut self.participant;
        let started = match (self.rng.u32(..8), known) {
            (0, _) => participant.try_acquire(self.now, permits),
            (1 | 2, Some(known)) => return participant.cancel(self.now, known),
            (3 | 4, Some(known)) => return participant.release(self.now, known),
            _ => participant.acquire(self.now, permits, deadline),
        };
        self.acquisitions.extend(started.ok());
        if self.acquisitions.len() > 20 {
            let oldest = self.acquisitions.remove(0);
            self.participant.cancel(self.now, oldest);
        }
    }

    fn let_time_pass(&mut self) {
        let by = Duration::from_millis(self.rng.u64(..5_000));
        let due = self.participant.poll_timeout();
        self.now = match due {
            Some(due) if self.rng.bool() => self.now.max(due),
            _ => self.now + by,
        };
        self.participant.handle_timeout(self.now);
    }

    /// Takes all output, which must end at some time.
    fn drain(&mut self) {
        for polls in 0.. {
            assert!(polls < 200, "poll_transmit goes on for ever");
            let Some(transmit) = self.participant.poll_transmit(self.now) else {
                break;
            };
            self.open.push((transmit.id, transmit.request));
        }
        for polls in 0.. {
            assert!(polls < 200, "poll_abort goes on for ever");
            let Some(id) = self.participant.poll_abort() else {
                break;
            };
            self.open.retain(|(open, _)| *open != id);
        }
        let mut granted = Vec::new();
        for polls in 0.. {
            assert!(polls < 200, "poll_event goes on for ever");
            match self.participant.poll_event() {
                Some(Event::Granted {
                    command: acquire, ..
                }) => {
                    self.grants += 1;
                    granted.push(acquire);
                }
                Some(Event::Lost {
                    command: acquire, ..
                }) => {
                    assert!(!self.participant.is_held(self.now, acquire));
                    granted.retain(|it| *it != acquire);
                }
                Some(_) => {}
                None => break,
            }
        }
        // A lease of a nanosecond ends in the moment of the grant. Then the loss follows the grant.
        for acquire in granted {
            assert!(self.participant.is_held(self.now, acquire));
        }
        assert!(
            self.open.len() <= 25,
            "{} requests are open",
            self.open.len()
        );
        self.participant.handle_timeout(self.now);
        if let Some(due) = self.participant.poll_timeout() {
            assert!(due > self.now, "a timeout that never ends");
        }
    }

    fn answer(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.rng.usize(..self.open.len());
        let (id, request) = self.open.swap_remove(at);
        self.answered.push_back(id);
        if self.answered.len() > 50 {
            self.answered.pop_front();
        }
        let answer = self.invent(&request);
        self.participant.handle_response(self.now, id, answer);
    }

    /// Delivers an answer twice.
    fn answer_again(&mut self) {
        if let Some(id) = self.answered.front().copied() {
            let answer = Ok(self.garbage());
            self.participant.handle_response(self.now, id, answer);
        }
    }

    fn invent(
        &mut self,
        request: &semaphore_core::sans_io::Request,
    ) -> Result<Response, TransportError> {
        match self.rng.u32(..20) {
            0 => return Ok(self.garbage()),
            1 => {
                let kinds = [
                    TransportErrorKind::NotSent,
                    TransportErrorKind::Unknown,
                    TransportErrorKind::Timeout,
                    TransportErrorKind::BadAnswer,
                    TransportErrorKind::Misconfigured,
                ];
                let kind = self.rng.choice(kinds).expect("a kind");
                return Err(TransportError::new(kind));
            }
            _ => {}
        }
        self.index += self.rng.u64(..3);
        let body = match RequestKind::of(request) {
            RequestKind::SessionCreate => {
                let id = format!("{:08x}-0000-0000-0000-000000000000", self.rng.u32(..));
                self.sessions.push(id.clone());
                format!(r#"{{"ID":"{id}"}}"#)
            }
            RequestKind::SessionRenew => {
                let ttl = self.rng.choice(["15s", "", "10s", "0s", "1ns", "24h"]);
                format!(r#"[{{"ID":"{UUID}","TTL":"{}"}}]"#, ttl.expect("a TTL"))
            }
            RequestKind::KvRead | RequestKind::KvWatch => {
                let index = if self.rng.u32(..30) == 0 {
                    self.rng.u64(..)
                } else {
                    self.index
                };
                let body = self.list();
                return Ok(Response::new(200, body)
                    .with_header("X-Consul-Index", index.to_string())
                    .with_header(
                        "X-Consul-Results-Filtered-By-ACLs",
                        (self.rng.u32(..40) == 0).to_string(),
                    ));
            }
            RequestKind::Txn if self.rng.u32(..6) == 0 => return Ok(self.roll_back()),
            RequestKind::Txn => self.results(request),
            _ => (self.rng.u32(..6) > 0).to_string(),
        };
        Ok(Response::new(200, body))
    }

    /// The results of each operation of a transaction. Sometimes one is missing or appears twice.
    fn results(&mut self, request: &semaphore_core::sans_io::Request) -> String {
        let mut results = Vec::new();
        for operation in operations(request) {
            let text = |name: &str| operation[name].as_str().unwrap_or_default();
            match text("Verb") {
                "lock" | "cas" | "check-session" => results.push(format!(
                    r#"{{"Key":"{}","Session":"{}","Value":null,"Flags":0,"LockIndex":1,"CreateIndex":{},"ModifyIndex":{}}}"#,
                    text("Key"),
                    text("Session"),
                    self.rng.u64(1..=self.index),
                    self.index
                )),
                "get-tree" => results.extend(self.entries()),
                _ => {}
            }
        }
        match self.rng.u32(..20) {
            0 => drop(results.pop()),
            1 => results.clear(),
            2 => results.extend(results.first().cloned()),
            _ => {}
        }
        let results: Vec<_> = results
            .iter()
            .map(|it| format!(r#"{{"KV":{it}}}"#))
            .collect();
        format!(r#"{{"Results":[{}],"Errors":null}}"#, results.join(","))
    }

    fn roll_back(&mut self) -> Response {
        let errors: Vec<_> = (0..self.rng.u32(..3))
            .map(|_| {
                let what = self.rng.choice([
                    r#"failed to set key "k", index is stale"#,
                    r#"failed to lock key "k", lock is already held"#,
                    r#"failed to lock key "k" due to lock delay"#,
                    r#"failed session check for key "k", current session "" != "s""#,
                    r#"key "k" exists"#,
                    r#"invalid session "s""#,
                    "Permission denied",
                    "",
                ]);
                serde_json::json!({"OpIndex": self.rng.u32(..5), "What": what})
            })
            .collect();
        let body = serde_json::json!({"Results": null, "Errors": errors});
        Response::new(409, body.to_string())
    }

    fn list(&mut self) -> String {
        format!("[{}]", self.entries().join(","))
    }

    /// Any of the sessions so far, as holders and contenders, with any indexes.
    fn entries(&mut self) -> Vec<String> {
        if self.sessions.len() > 12 {
            self.sessions.drain(..4);
        }
        let sessions = self.sessions.clone();
        let mut entries = Vec::new();
        for session in &sessions {
            let tied = match self.rng.u32(..20) {
                0 => continue,
                1 => "",
                2 => UUID,
                _ => session.as_str(),
            };
            let index = self.rng.u64(1..=self.index);
            entries.push(format!(
                r#"{{"Key":"{PREFIX}/{session}","Session":"{tied}","Value":null,"Flags":{},"LockIndex":1,"CreateIndex":{index},"ModifyIndex":{index}}}"#,
                self.rng.u64(..3)
            ));
            if self.rng.u32(..20) == 0 {
                entries.extend(entries.last().cloned());
            }
        }
        if self.rng.u32(..10) > 0 {
            let holders: Vec<_> = sessions
                .iter()
                .filter(|_| self.rng.u32(..4) == 0)
                .map(|session| format!("\"{session}\""))
                .collect();
            let limit = if self.rng.u32(..20) == 0 { 0 } else { 4 };
            let value = format!(r#"{{"Limit":{limit},"Holders":[{}]}}"#, holders.join(","));
            let value = base64::engine::general_purpose::STANDARD.encode(value);
            entries.push(format!(
                r#"{{"Key":"{PREFIX}/.lock","Value":"{value}","Flags":0,"ModifyIndex":{}}}"#,
                self.index
            ));
        }
        self.rng.shuffle(&mut entries);
        entries
    }

    fn garbage(&mut self) -> Response {
        let bodies = bodies();
        let body = self.rng.choice(bodies).expect("a body");
        let statuses = [
            200, 200, 200, 204, 301, 400, 403, 404, 409, 413, 429, 500, 502, 999, 0,
        ];
        let status = self.rng.choice(statuses).expect("a status");
        let body = match self.rng.u32(..6) {
            0 => format!("invalid session \"{UUID}\""),
            1 => format!("Session id '{UUID}' not found"),
            _ => body,
        };
        let indexes = ["0", "1", "x", "18446744073709551615", ""];
        let index = self.rng.choice(indexes).expect("an index");
        Response::new(status, body).with_header("X-Consul-Index", index)
    }
}

/// Two contenders with one session would have one key.
#[test]
fn an_id_that_is_told_twice_creates_no_second_session() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let first = world.run(semaphore.acquire()).expect("a slot");
    let session = holders(&world).pop().expect("a holder");
    let again = Response::new(200, format!(r#"{{"ID":"{session}"}}"#));
    let creates = |request: &Request| RequestKind::of(request) == RequestKind::SessionCreate;
    world.inject(Rule::new(Fault::Answer(again)).matching(creates));
    let second = world.run(semaphore.acquire()).expect("a slot");
    assert_eq!(holders(&world).len(), 2);
    assert!(first.is_held() && second.is_held());
}
