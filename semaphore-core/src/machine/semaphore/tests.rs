//! The cost of an event if many hold: no more than if few do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use crate::http::{Method, Request, Response};
use crate::id::{CommandId, RequestId};
use crate::input::Prefix;
use crate::machine::contract::{Event, Machine as _};
use crate::machine::fixture::at;
use crate::machine::semaphore::*;
use crate::work;

/// The parts of Consul that one undisturbed participant needs. It answers at once.
#[derive(Default)]
struct Consul {
    index: u64,
    sessions: u64,
    keys: BTreeMap<String, Json>,
}

impl Consul {
    /// `None` if a blocking query waits.
    fn answer(&mut self, request: &Request) -> Option<Response> {
        let target = request.target();
        let body = match (request.method(), target) {
            (_, "/v1/session/create") => {
                self.sessions += 1;
                json!({"ID": format!("{:08x}-0000-0000-0000-000000000000", self.sessions)})
            }
            (_, target) if target.starts_with("/v1/txn") => self.transaction(request.body()),
            (Method::Delete, _) => {
                let key = target.trim_start_matches("/v1/kv/");
                self.index += 1;
                self.keys.remove(key);
                json!(true)
            }
            (Method::Get, _) if target.starts_with("/v1/kv/") => {
                if target.contains("index=") {
                    return None;
                }
                let path = target.trim_start_matches("/v1/kv/");
                let (key, _) = path.split_once('?').unwrap_or((path, ""));
                let below = |it: &&Json| it["Key"].as_str().is_some_and(|it| it.starts_with(key));
                Json::Array(self.keys.values().filter(below).cloned().collect())
            }
            (Method::Put, _) if target.contains("/destroy/") => json!(true),
            _ => json!([{"TTL": "15s"}]),
        };
        let index = self.index.max(1).to_string();
        let response = Response::new(200, body.to_string());
        Some(response.with_header("X-Consul-Index", index))
    }

    fn transaction(&mut self, body: &[u8]) -> Json {
        let operations: Json = serde_json::from_slice(body).unwrap();
        self.index += 1;
        let mut results = Vec::new();
        for operation in operations.as_array().into_iter().flatten() {
            let operation = &operation["KV"];
            let key = operation["Key"].as_str().unwrap_or_default().to_owned();
            let mut shown = match operation["Verb"].as_str() {
                Some("lock" | "cas") => self.write(&key, operation),
                Some("check-not-exists") => {
                    assert!(!self.keys.contains_key(&key));
                    continue;
                }
                Some("check-index") => {
                    assert_eq!(self.keys[&key]["ModifyIndex"], operation["Index"]);
                    self.keys[&key].clone()
                }
                Some("get-tree") => {
                    let below =
                        |it: &&Json| it["Key"].as_str().is_some_and(|it| it.starts_with(&key));
                    let below = self.keys.values().filter(below);
                    results.extend(below.map(|it| json!({"KV": it})));
                    continue;
                }
                Some("delete") => {
                    self.keys.remove(&key);
                    continue;
                }
                verb => unreachable!("{verb:?}"),
            };
            shown["Value"] = Json::Null;
            results.push(json!({"KV": shown}));
        }
        json!({"Results": results, "Errors": null})
    }

    fn write(&mut self, key: &str, operation: &Json) -> Json {
        let created = self.keys.get(key).map(|it| it["CreateIndex"].clone());
        let entry = json!({
            "Key": key,
            "Value": operation["Value"],
            "Flags": operation["Flags"],
            "Session": operation["Session"].as_str().unwrap_or_default(),
            "LockIndex": 1,
            "CreateIndex": created.unwrap_or(json!(self.index)),
            "ModifyIndex": self.index,
        });
        self.keys.insert(key.to_owned(), entry.clone());
        entry
    }

    fn holders(&self) -> usize {
        let value = self.keys["jobs/.lock"]["Value"].as_str().unwrap();
        let record: Json = serde_json::from_slice(&STANDARD.decode(value).unwrap()).unwrap();
        record["Holders"].as_object().unwrap().len()
    }
}

/// The kind of a request, by the possible cost of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A session, or the key of a leaving contender.
    Small,
    /// A write of the record, which names all holders, or a read of the prefix.
    Whole,
}

impl Kind {
    fn of(request: &Request) -> Self {
        let is_small =
            request.target().starts_with("/v1/session/") || request.method() == Method::Delete;
        if is_small { Self::Small } else { Self::Whole }
    }
}

/// The highest cost of one event.
#[derive(Debug, Default)]
struct Most {
    answers: BTreeMap<Kind, usize>,
    commands: usize,
    looks: usize,
}

struct Bench {
    participant: Participant,
    consul: Consul,
    now: u64,
    under_way: VecDeque<(RequestId, Kind, Option<Response>)>,
    held: BTreeSet<CommandId>,
    done: usize,
    most: Most,
}

impl Bench {
    fn new(limit: u32) -> Self {
        let settings = Settings::new(Prefix::new("jobs").unwrap(), limit).unwrap();
        Self {
            participant: Participant::new(settings, 1),
            consul: Consul::default(),
            now: 1_000,
            under_way: VecDeque::new(),
            held: BTreeSet::new(),
            done: 0,
            most: Most::default(),
        }
    }

    fn command(&mut self, act: impl FnOnce(&mut Participant, Instant)) {
        let now = at(self.now);
        let ((), passed) = work::during(|| act(&mut self.participant, now));
        self.most.commands = self.most.commands.max(passed);
    }

    /// Works as a driver does: sends what is due and takes the answers, until nothing is left to do
    /// now.
    fn settle(&mut self) {
        loop {
            self.look();
            let answered = self.under_way.iter().position(|(.., it)| it.is_some());
            let Some((id, kind, Some(answer))) = answered.and_then(|it| self.under_way.remove(it))
            else {
                break;
            };
            let now = at(self.now);
            let participant = &mut self.participant;
            let ((), passed) = work::during(|| participant.handle_response(now, id, Ok(answer)));
            let most = self.most.answers.entry(kind).or_default();
            *most = passed.max(*most);
        }
    }

    fn look(&mut self) {
        let now = at(self.now);
        let participant = &mut self.participant;
        let ((), passed) = work::during(|| participant.handle_timeout(now));
        let mut most = passed;
        loop {
            let (transmit, passed) = work::during(|| participant.poll_transmit(now));
            let Some(transmit) = transmit else {
                most = most.max(passed);
                break;
            };
            let kind = Kind::of(&transmit.request);
            if kind == Kind::Small {
                most = most.max(passed);
            }
            let answer = self.consul.answer(&transmit.request);
            self.under_way.push_back((transmit.id, kind, answer));
        }
        let (_, passed) = work::during(|| participant.poll_timeout());
        self.most.looks = self.most.looks.max(most).max(passed);
        while let Some(id) = participant.poll_abort() {
            self.under_way.retain(|(it, ..)| *it != id);
        }
        while let Some(event) = participant.poll_event() {
            match event {
                Event::Granted { command, .. } => _ = self.held.insert(command),
                Event::Done { result, .. } => {
                    result.unwrap();
                    self.done += 1;
                }
                other => unreachable!("{other:?}"),
            }
        }
    }

    fn advance(&mut self, millis: u64) {
        let end = self.now + millis;
        while let Some(next) = self.participant.poll_timeout().filter(|it| *it <= at(end)) {
            let next = next.since_origin().as_nanos().div_ceil(1_000_000);
            self.now = self.now.max(u64::try_from(next).unwrap());
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn take_most(&mut self) -> Most {
        core::mem::take(&mut self.most)
    }
}

/// The highest cost while this number of permits is acquired, held, and given back at once.
fn acquired_held_and_given_back(permits: u32) -> [Most; 3] {
    let mut bench = Bench::new(permits);
    for _ in 0..permits {
        bench.command(|participant, now| _ = participant.acquire(now, 1, None).unwrap());
    }
    bench.advance(2_000);
    assert_eq!(bench.held.len(), permits as usize);
    assert_eq!(bench.consul.holders(), permits as usize);
    let acquired = bench.take_most();

    bench.advance(20_000);
    let held = bench.take_most();
    assert!(held.answers.contains_key(&Kind::Small), "{held:?}");

    for acquire in bench.held.clone() {
        assert!(bench.participant.is_held(at(bench.now), acquire));
        bench.command(|participant, now| participant.release(now, acquire));
    }
    bench.advance(10_000);
    assert_eq!(bench.done, permits as usize);
    assert_eq!(bench.consul.holders(), 0);
    assert!(bench.participant.is_idle());
    [acquired, held, bench.take_most()]
}

#[test]
fn what_an_event_goes_through_does_not_grow_with_what_is_held() {
    for permits in [50, 300] {
        let [acquired, held, given_back] = acquired_held_and_given_back(permits);
        let figures = format!("{permits}: {acquired:?}, {held:?}, {given_back:?}");
        // An answer that admits somebody leads to another record, which names all holders.
        let copies = permits as usize * 2;
        for (phase, copies) in [(&acquired, copies), (&held, 0), (&given_back, 0)] {
            assert!(phase.commands <= MOST, "{figures}");
            assert!(phase.looks <= MOST + copies, "{figures}");
            assert!(phase.answers[&Kind::Small] <= MOST + copies, "{figures}");
        }
        // Everything that names all of them is visited a few times.
        let whole = [&acquired, &given_back].map(|phase| phase.answers[&Kind::Whole]);
        let most = MOST + permits as usize * MOST_TIMES;
        assert!(whole.into_iter().all(|whole| whole <= most), "{figures}");
    }
}

/// The limit for an event that does not show all holders.
const MOST: usize = 160;

/// The limit on how often a write or a view is visited.
const MOST_TIMES: usize = 10;
