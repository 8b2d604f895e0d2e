//! Compares what two backends answered.
//!
//! Session ids are compared by the names that the script gave them. Indexes are compared by their
//! rank among all indexes that the script saw. That keeps every relation between them: moved, did
//! not move, went backwards, equals the `ModifyIndex` of that entry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use semaphore_core::adapter::Response;
use serde_json::Value;

use crate::meaning::{self, Redirects};
use crate::run::{Observed, Record};
use crate::script::{Compare, Script, Step, Wire};

/// The headers that clients use.
const HEADERS: [&str; 10] = [
    "Content-Type",
    "Location",
    "Allow",
    "X-Consul-Knownleader",
    "X-Consul-Lastcontact",
    "X-Content-Type-Options",
    "Content-Security-Policy",
    "X-Consul-Default-Acl-Policy",
    "X-Consul-Query-Backend",
    "X-Consul-Results-Filtered-By-ACLs",
];

/// In a URL, an index follows one of these.
const BEFORE_AN_INDEX: [&str; 2] = ["index=", "cas="];

/// A step whose observations differ. Steps are numbered from one.
pub(crate) struct Difference {
    pub(crate) script: String,
    pub(crate) step: usize,
    pub(crate) told: String,
}

/// Describes every step whose observations differ.
pub(crate) fn differences(
    script: &Script,
    memory: &Record,
    real: &Record,
    redirects: Redirects,
) -> Vec<Difference> {
    let memory = describe(script, memory, redirects);
    let real = describe(script, real, redirects);
    let steps = script.steps.iter().zip(memory.iter().zip(&real));
    let differing = (1..)
        .zip(steps)
        .filter(|(_, (_, (memory, real)))| memory != real);
    differing
        .map(|(number, (step, (memory, real)))| Difference {
            script: script.name.clone(),
            step: number,
            told: format!(
                "{}\n  step {number}: {}\n  memory: {memory}\n  real:   {real}",
                script.name,
                label(step)
            ),
        })
        .collect()
}

pub(crate) fn label(step: &Step) -> String {
    match step {
        Step::Send(wire) | Step::Start(_, wire) => {
            let starts = if matches!(step, Step::Start(..)) {
                "start "
            } else {
                ""
            };
            let body: String = String::from_utf8_lossy(&wire.body)
                .chars()
                .take(300)
                .collect();
            format!("{starts}{} {} {body}", wire.method, wire.target)
        }
        other => format!("{other:?}"),
    }
}

fn describe(script: &Script, record: &Record, redirects: Redirects) -> Vec<String> {
    let mut queries: BTreeMap<&str, &Wire> = BTreeMap::new();
    let mut answers = Vec::new();
    for (step, observed) in script.steps.iter().zip(&record.observed) {
        let wire = match step {
            Step::Send(wire) => Some(wire),
            Step::Start(name, wire) => {
                queries.insert(name, wire);
                None
            }
            Step::Wakes(name) | Step::Peek(name) | Step::Glance(name) | Step::WaitEnds(name) => {
                queries.get(name).copied()
            }
            _ => None,
        };
        answers.push((wire, observed));
    }
    let mut indexes = BTreeSet::new();
    for (wire, observed) in &answers {
        if let (Some(wire), Observed::Answer(response)) = (wire, observed) {
            collect_indexes(wire, response, &record.sessions, &mut indexes);
        }
    }
    let normaliser = Normaliser {
        ranks: (1..)
            .zip(indexes)
            .map(|(rank, index)| (index, rank))
            .collect(),
        sessions: &record.sessions,
        redirects,
    };
    answers
        .iter()
        .map(|(wire, observed)| match (wire, observed) {
            (Some(wire), Observed::Answer(response)) => normaliser.answer(wire, response),
            (_, Observed::Waits(true)) => "waits".into(),
            (_, Observed::Waits(false)) => "does not wait".into(),
            (_, Observed::NoAnswer) => "is not answered".into(),
            _ => String::new(),
        })
        .collect()
}

type Names = BTreeMap<String, String>;

fn collect_indexes(
    wire: &Wire,
    response: &Response,
    sessions: &Names,
    indexes: &mut BTreeSet<u64>,
) {
    if wire.compare != Compare::WithoutIndex {
        let header = response.header("X-Consul-Index");
        indexes.extend(header.and_then(|index| index.parse::<u64>().ok()));
    }
    if let Ok(mut json) = serde_json::from_slice(response.body()) {
        leave_out_strangers(&mut json, sessions);
        collect_members(&json, indexes);
    }
}

/// Keeps only the script's own sessions. A list of sessions shows those of all scripts, in the
/// order of random ids.
fn leave_out_strangers(json: &mut Value, sessions: &Names) {
    let Value::Array(items) = json else { return };
    items.retain(|item| match (&item["ID"], &item["Behavior"]) {
        (Value::String(id), Value::String(_)) => sessions.contains_key(id),
        _ => true,
    });
    if items.iter().any(|item| item["Behavior"].is_string()) {
        items.sort_by_key(|item| item["ID"].as_str().and_then(|id| sessions.get(id)).cloned());
    }
}

fn collect_members(json: &Value, indexes: &mut BTreeSet<u64>) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| collect_members(item, indexes)),
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_u64() {
                    Some(index) if is_index(name) => {
                        indexes.insert(index);
                    }
                    _ => collect_members(value, indexes),
                }
            }
        }
        _ => {}
    }
}

fn is_index(name: &str) -> bool {
    name == "CreateIndex" || name == "ModifyIndex"
}

struct Normaliser<'a> {
    ranks: BTreeMap<u64, usize>,
    sessions: &'a Names,
    redirects: Redirects,
}

impl Normaliser<'_> {
    fn answer(&self, wire: &Wire, response: &Response) -> String {
        let refusal = meaning::of_refusal(wire, response);
        let mut text = match response.status() {
            301 | 307 if self.redirects == Redirects::OfAnyStatus => "redirect".to_owned(),
            status => status.to_string(),
        };
        if wire.compare == Compare::StatusOnly {
            return text;
        }
        for name in HEADERS {
            let Some(value) = response.header(name) else {
                continue;
            };
            let value = match name {
                "Content-Type" if refusal.is_some() => continue,
                // Only some releases name the encoding of a text.
                "Content-Type" => value.split(';').next().unwrap_or_default(),
                _ => value,
            };
            let _ = write!(text, " | {name}: {}", self.rank_numbers(&self.named(value)));
        }
        if let (Some(index), true) = (
            response.header("X-Consul-Index"),
            wire.compare != Compare::WithoutIndex,
        ) {
            let _ = write!(text, " | index {}", self.ranked(index));
        }
        let body = refusal.unwrap_or_else(|| self.body(response.body()));
        let _ = write!(text, " | {body}");
        text
    }

    fn body(&self, body: &[u8]) -> String {
        let json = serde_json::from_slice::<Value>(body);
        match json {
            Ok(mut json) => {
                leave_out_strangers(&mut json, self.sessions);
                self.normalise(&mut json);
                json.to_string()
            }
            Err(_) => self.rank_numbers(&self.named(&String::from_utf8_lossy(body))),
        }
    }

    fn normalise(&self, json: &mut Value) {
        match json {
            Value::String(text) => {
                *text = self.rank_numbers(&self.named(text));
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.normalise(item);
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    match value.as_u64() {
                        Some(index) if is_index(name) => {
                            *value = Value::String(self.ranked(&index.to_string()));
                        }
                        _ => self.normalise(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// The text with session ids replaced by their names.
    fn named(&self, text: &str) -> String {
        let mut named = text.to_owned();
        for (id, name) in self.sessions {
            named = named.replace(id, &format!("<{name}>"));
        }
        named
    }

    fn ranked(&self, index: &str) -> String {
        match index
            .parse()
            .ok()
            .and_then(|index: u64| self.ranks.get(&index))
        {
            Some(rank) => format!("#{rank}"),
            None => index.to_owned(),
        }
    }

    /// The text with every index replaced by its rank. Only numbers in an index's place count: a
    /// length could be the same number by chance.
    fn rank_numbers(&self, text: &str) -> String {
        let mut ranked = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(at);
            let end = from
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(from.len());
            ranked.push_str(before);
            let is_index = BEFORE_AN_INDEX.iter().any(|mark| before.ends_with(mark));
            if is_index {
                ranked.push_str(&self.ranked(&from[..end]));
            } else {
                ranked.push_str(&from[..end]);
            }
            rest = &from[end..];
        }
        ranked.push_str(rest);
        ranked
    }
}
