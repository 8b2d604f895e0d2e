//! Compares the answers of an agent of 1.23-dev to every script of the table with the profile of
//! 1.23.
//!
//! `recorded/README.md` says where the recordings come from, and describes their format. The
//! remaining differences are listed here with the reason, and each one listed must still exist.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::adapter::Response;
use serde_json::{Value, json};
use transport_mock::consul::Version;

use crate::compare::{self, Difference};
use crate::meaning::Redirects;
use crate::memory::Memory;
use crate::run::{self, Observed, Record};
use crate::script::{Script, Step};
use crate::table;
use crate::told::{Told, told};

const QUICK: &str = include_str!("recorded/1.23/quick.jsonl");
const ACL: &str = include_str!("recorded/1.23/acl.jsonl");
const SLOW: &str = include_str!("recorded/1.23/slow.jsonl");

/// The differences: the script, its step, and the reason.
const KNOWN: &[(&str, usize, &str)] = &[];

/// Long lists of sessions: the script, and the step. The recording has only their beginning, length
/// and hash. They show the sessions of all earlier scripts, so only the rest of these answers can
/// be compared.
const WITH_STRANGERS: &[(&str, usize)] = &[
    ("sessions are listed, all and by node", 3),
    ("sessions are listed, all and by node", 4),
    ("sessions are listed, all and by node", 5),
    (
        "another session's end does not wake the query on one session, but that on all",
        7,
    ),
    ("a renewal wakes nobody", 2),
    ("a renewal wakes nobody", 7),
];

/// Scripts that were added after the recording. To compare them, run an agent of that release.
const NEWER: &[&str] = &[
    "a partition is passed over, or refused",
    "a transaction is about one namespace, whatever it and its operations name, and knows no partition",
    "a node is made by a check-and-set with index zero, once, and sessions stand on it",
    "a node is set and read, and a transaction that fails leaves none behind",
    "whether a key could be acquired can be asked, and nothing changes",
    "whether a key is free that is not there can be asked, and nothing changes",
    "a node needs a right of its own, which that to its sessions is not",
];

/// Everything that is wrong.
pub(crate) fn compare_all() -> Vec<String> {
    let mut found = Found::with(Version::V1_23);
    let mut findings = std::mem::take(&mut found.findings);
    for difference in &found.differences {
        let is_listed = |(name, step, _): &(&str, usize, &str)| {
            *name == difference.script && *step == difference.step
        };
        if !KNOWN.iter().any(is_listed) {
            findings.push(difference.told.clone());
        }
    }
    for (name, step, _) in KNOWN {
        let mut differences = found.differences.iter();
        if !differences.any(|it| it.script == *name && it.step == *step) {
            findings.push(format!(
                "{name}, step {step}: is listed and does not differ"
            ));
        }
    }
    let listed = WITH_STRANGERS.iter();
    let listed: BTreeSet<_> = listed
        .map(|(name, step)| ((*name).to_owned(), *step))
        .collect();
    for (name, step) in found.unread.symmetric_difference(&listed) {
        findings.push(format!(
            "{name}, step {step}: a list with strangers, or not"
        ));
    }
    let listed: BTreeSet<_> = NEWER.iter().map(|name| (*name).to_owned()).collect();
    for name in found.unrecorded.symmetric_difference(&listed) {
        findings.push(format!("{name}: was not recorded, or was"));
    }
    findings
}

/// How many steps differ if another release is compared with the recordings.
pub(crate) fn differences_of(version: Version) -> usize {
    Found::with(version).differences.len()
}

/// The result of a comparison with the recordings.
#[derive(Default)]
struct Found {
    differences: Vec<Difference>,
    unread: BTreeSet<(String, usize)>,
    unrecorded: BTreeSet<String>,
    /// What is wrong with the recordings themselves.
    findings: Vec<String>,
}

impl Found {
    fn with(version: Version) -> Self {
        let mut found = Self::default();
        for (table, recordings, acl) in [
            (table::quick(), QUICK, false),
            (table::acl(), ACL, true),
            (table::slow(), SLOW, false),
        ] {
            let recordings = recordings.lines().map(Recording::read);
            let mut recordings: BTreeMap<_, _> =
                recordings.map(|it| (it.script.clone(), it)).collect();
            for script in &table {
                let Some(recording) = recordings.remove(&script.name) else {
                    found.unrecorded.insert(script.name.clone());
                    continue;
                };
                found.findings.extend(recording.other_step(script));
                let memory = Memory::of(version.into());
                let memory = if acl { memory.with_acl() } else { memory };
                let (differences, strangers) = recording.compare(script, memory);
                found.differences.extend(differences);
                let strangers = strangers.into_iter();
                found
                    .unread
                    .extend(strangers.map(|step| (script.name.clone(), step)));
            }
            let left = recordings.into_keys();
            let findings = left.map(|name| format!("{name}: is no script of the table"));
            found.findings.extend(findings);
        }
        found
    }
}

/// The recording of one script.
struct Recording {
    script: String,
    prefix: String,
    steps: Vec<(Value, Value)>,
    sessions: BTreeMap<String, String>,
}

impl Recording {
    fn read(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).expect("a recording is JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let steps = line["steps"].as_array().expect("steps");
        let sessions = line["sessions"].as_object().expect("sessions");
        Self {
            script: text(&line["script"]),
            prefix: text(&line["prefix"]),
            steps: steps
                .iter()
                .map(|it| (it[0].clone(), it[1].clone()))
                .collect(),
            sessions: sessions
                .iter()
                .map(|(id, name)| (id.clone(), text(name)))
                .collect(),
        }
    }

    /// The first step that differs from the recorded script, if any.
    fn other_step(&self, script: &Script) -> Option<String> {
        let now: Vec<_> = script.steps.iter().map(written).collect();
        let then: Vec<_> = self.steps.iter().map(|(step, _)| step.clone()).collect();
        (now != then).then(|| {
            let first = now.iter().zip(&then).position(|(now, then)| now != then);
            let first = first.unwrap_or(now.len().min(then.len())) + 1;
            format!("{}, step {first}: is not as it was recorded", script.name)
        })
    }

    /// The differences, and the steps whose bodies show other scripts' sessions.
    fn compare(&self, script: &Script, mut memory: Memory) -> (Vec<Difference>, Vec<usize>) {
        let mut memory = run::run(script, &self.prefix, &mut memory, None);
        let mut real = Record {
            observed: Vec::new(),
            spans: Vec::new(),
            sessions: self.sessions.clone(),
        };
        let mut strangers = Vec::new();
        for (number, ((_, then), now)) in (1..).zip(self.steps.iter().zip(&mut memory.observed)) {
            let (response, told) = match then {
                Value::Null => {
                    real.observed.push(Observed::Nothing);
                    continue;
                }
                Value::String(text) if text == "waits" => {
                    real.observed.push(Observed::Waits(true));
                    continue;
                }
                Value::String(text) if text == "no answer" => {
                    real.observed.push(Observed::NoAnswer);
                    continue;
                }
                answer => answered(answer),
            };
            let response = match (told, now) {
                (Some(told), Observed::Answer(memory)) => {
                    let is_the_same = told.is_of(memory);
                    if told.is_of_sessions() {
                        strangers.push(number);
                    }
                    let body = if is_the_same || told.is_of_sessions() {
                        "of this length and hash"
                    } else {
                        "of another length or hash"
                    };
                    *memory = with_body(memory, body);
                    with_body(&response, "of this length and hash")
                }
                _ => response,
            };
            real.observed.push(Observed::Answer(response));
        }
        let differences = compare::differences(script, &memory, &real, Redirects::TheSame);
        (differences, strangers)
    }
}

/// A step in the format of the recordings.
fn written(step: &Step) -> Value {
    let request = |wire: &crate::script::Wire| {
        json!({
            "send": format!("{:?} {}", wire.method, wire.target),
            "token": wire.token,
            "body": told(&wire.body),
        })
    };
    match step {
        Step::Send(wire) => request(wire),
        Step::Start(name, wire) => {
            let mut written = request(wire);
            written["start"] = json!(name);
            written
        }
        other => json!(format!("{other:?}")),
    }
}

/// A recorded answer. If the recording describes its body instead of showing it, also that
/// description.
fn answered(answer: &Value) -> (Response, Option<Told>) {
    let status = answer["status"]
        .as_u64()
        .and_then(|it| u16::try_from(it).ok());
    let body = answer["body"].as_str().unwrap_or_default();
    let headers = answer["headers"].as_array().expect("headers");
    let headers = headers
        .iter()
        .filter_map(|header| header.as_str()?.split_once(": "));
    let response = Response::new(status.expect("a status"), body);
    let response = headers.fold(response, |it, (name, value)| it.with_header(name, value));
    let told = answer["body"]
        .is_object()
        .then(|| Told::of(&answer["body"], &response));
    (response, told)
}

fn with_body(response: &Response, body: &str) -> Response {
    let bare = Response::new(response.status(), body);
    let headers = response.headers();
    headers.fold(bare, |it, (name, value)| it.with_header(name, value))
}
