//! What happened, in a few lines: what went wrong, and how it changed holders and leaders.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Network;
use crate::consul::{Consul, Entry};

/// The name of a semaphore's record below its prefix.
const RECORD: &str = "/.lock";

/// The holders and leaders that were last seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    index: u64,
    /// The holders, by record.
    holders: BTreeMap<String, Vec<String>>,
    /// The leaders, by key.
    leaders: BTreeMap<String, String>,
    /// By session: its owner's value, also after its key is gone.
    names: BTreeMap<String, String>,
}

impl Network {
    /// Adds what has changed in slots and leaders since the last call.
    pub(super) fn tell(&mut self) {
        if !self.trace.is_kept || self.consul.last_index() == self.seen.index {
            return;
        }
        for line in self.seen.look(&self.consul) {
            self.trace.tell(self.now, format_args!("{line}"));
        }
    }
}

impl Seen {
    /// Compares with what was last seen, and describes the changes.
    fn look(&mut self, consul: &Consul) -> Vec<String> {
        let index = consul.last_index();
        let before = std::mem::replace(&mut self.index, index);
        // Indexes may have gone backwards.
        let before = if before <= index { before } else { 0 };
        let mut lines = Vec::new();
        self.look_at_what_went(consul, &mut lines);
        let changed = consul.entries("");
        for entry in changed.filter(|it| it.modify_index() > before) {
            let key = entry.key();
            if let Some(prefix) = key.strip_suffix(RECORD) {
                let holders = self.holders(consul, prefix, entry);
                let known = self.holders.entry(key.clone()).or_default();
                if *known != holders {
                    lines.push(format!("{prefix} is held by {}", named(&holders)));
                    *known = holders;
                }
            } else if entry.session().is_some_and(|it| !key.ends_with(it)) {
                let leader = name(entry);
                if self.leaders.get(&key) != Some(&leader) {
                    lines.push(format!("{key} is led by {leader}"));
                    self.leaders.insert(key, leader);
                }
            }
        }
        lines
    }

    /// The holders in this record, which has sessions as names of an object or in an array.
    fn holders(&mut self, consul: &Consul, prefix: &str, record: &Entry) -> Vec<String> {
        let record: Option<Value> = serde_json::from_slice(record.value()).ok();
        let holders = record.as_ref().and_then(|it| it.get("Holders"));
        let sessions: Vec<&str> = match holders {
            Some(Value::Object(holders)) => holders.keys().map(String::as_str).collect(),
            Some(Value::Array(holders)) => holders.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut name_of = |session: &str| {
            if let Some(contender) = consul.entry(&format!("{prefix}/{session}")) {
                self.names.insert(session.to_owned(), name(contender));
            }
            let known = self.names.get(session).map(String::as_str);
            known.unwrap_or(session).to_owned()
        };
        sessions.into_iter().map(&mut name_of).collect()
    }

    fn look_at_what_went(&mut self, consul: &Consul, lines: &mut Vec<String>) {
        self.leaders.retain(|key, _| {
            let leads = consul.entry(key).is_some_and(|it| it.session().is_some());
            if !leads {
                lines.push(format!("{key} is led by nobody"));
            }
            leads
        });
        self.holders.retain(|key, holders| {
            let is_there = consul.entry(key).is_some();
            if !is_there && !holders.is_empty() {
                lines.push(format!("{key} is gone"));
            }
            is_there
        });
    }
}

/// The owner's value, or else its session.
fn name(entry: &Entry) -> String {
    match (entry.value(), entry.session()) {
        ([], Some(session)) => session.to_owned(),
        (value, _) => String::from_utf8_lossy(value).into_owned(),
    }
}

fn named(holders: &[String]) -> String {
    if holders.is_empty() {
        "nobody".to_owned()
    } else {
        holders.join(", ")
    }
}
