//! `PUT /v1/txn`: several operations on keys, all or none.

use std::collections::BTreeSet;

use semaphore_core::adapter::Response;
use serde::Serialize;

use super::Consul;
use super::acl::{self, Authority};
use super::answer::{self, Freshness};
use super::call::{Call, Outcome};
use super::keys;
use super::kv::{self, Shown};
use super::limits::Errand;
use super::options::Options;
use super::profile::{KeyRule, Release, UnknownVerb};
use super::state::{State, Tables};
use super::store::Entry;
use super::tenancy::Tenancy;
use super::txn_body;
use super::txn_node::{NodeOperation, ShownNode};

/// Answers a transaction. If it only reads, it bypasses the log and reports its freshness.
pub(super) fn serve(consul: &mut Consul, call: &Call) -> Result<Outcome, Response> {
    let operations = txn_body::parse(call)?;
    let writes = operations.iter().any(Operation::is_write);
    let errand = if writes {
        Errand::Write
    } else {
        Options::parse(&call.target.query)?.errand()
    };
    consul.forward(call, errand)?;
    let authority = consul.authorize(call)?;
    let freshness = consul.freshness(call.now);
    let release = call.release();
    let state = &mut consul.state;
    let mut errors = pre_check(state, call, &authority, &operations);
    let mut results = Vec::new();
    let mut filtered = false;
    let is_begun = errors.is_empty();
    if is_begun {
        let index = if writes { state.next_index() } else { 0 };
        let catalog = state.catalog.clone();
        let places: BTreeSet<_> = operations.iter().filter_map(Operation::tenancy).collect();
        for place in &places {
            state.tables_mut(place).store.begin();
        }
        for (at, operation) in (0..).zip(&operations) {
            match operation.apply(state, call, index, &authority) {
                Ok(shown) => {
                    filtered |= shown.filtered;
                    results.extend(shown.seen);
                }
                Err(what) => errors.push(Fault { op_index: at, what }),
            }
        }
        for place in places {
            let store = &mut state.tables_mut(place).store;
            if errors.is_empty() {
                store.commit();
            } else {
                store.roll_back();
            }
        }
        if !errors.is_empty() {
            state.catalog = catalog;
        }
    }
    let status = if errors.is_empty() { 200 } else { 409 };
    // A newer agent that refuses it at once reports no freshness.
    let freshness = Freshness {
        known_leader: freshness.known_leader && (is_begun || !release.tells_reads_more),
        ..freshness
    };
    let more = ReadMetaMore {
        not_modified: false,
        backend: 0,
        results_filtered: filtered && authority.is_told_of_filtering(),
    };
    let answer = Answer {
        results: errors.is_empty().then_some(results),
        errors: Some(errors).filter(|errors| !errors.is_empty()),
        read: (!writes).then_some(ReadMeta {
            index: u64::from(release.tells_reads_more && is_begun),
            last_contact: 0,
            known_leader: freshness.known_leader,
            consistency_level: "",
            more: release.tells_reads_more.then_some(more),
        }),
    };
    let response = answer::json_with(status, &answer, call.pretty);
    Ok(Outcome::Ready(if writes {
        response
    } else {
        freshness.stamp(response)
    }))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    results: Option<Vec<OneResult>>,
    errors: Option<Vec<Fault>>,
    #[serde(flatten)]
    read: Option<ReadMeta>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReadMeta {
    index: u64,
    last_contact: u64,
    known_leader: bool,
    consistency_level: &'static str,
    #[serde(flatten)]
    more: Option<ReadMetaMore>,
}

/// What newer agents add.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReadMetaMore {
    not_modified: bool,
    backend: u64,
    #[serde(rename = "ResultsFilteredByACLs")]
    results_filtered: bool,
}

#[derive(Serialize)]
enum OneResult {
    #[serde(rename = "KV")]
    Key(Shown),
    Node(ShownNode),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Fault {
    op_index: usize,
    what: String,
}

/// What an operation returns, and whether something was left out.
struct Seen {
    seen: Vec<OneResult>,
    filtered: bool,
}

/// One operation.
pub(super) enum Operation {
    Key(KeyOperation),
    Node(NodeOperation),
}

impl Operation {
    fn is_write(&self) -> bool {
        match self {
            Self::Key(operation) => operation.is_write(),
            Self::Node(operation) => operation.is_write(),
        }
    }

    /// What the agent finds wrong with its key.
    pub(super) fn fault_of_key(&self, release: &Release) -> Option<String> {
        let Self::Key(operation) = self else {
            return None;
        };
        let (rule, key) = (release.keys_of_transactions, &operation.entry.key);
        if rule == KeyRule::TidyAndRelative && key.is_empty() {
            return Some("empty key name is not allowed".to_owned());
        }
        let fault = keys::fault(rule, key)?;
        Some(format!("invalid key name, {fault}"))
    }

    /// The tenancy of its key. The catalog has none.
    fn tenancy(&self) -> Option<&Tenancy> {
        match self {
            Self::Key(operation) => Some(&operation.tenancy),
            Self::Node(_) => None,
        }
    }

    /// Applies it. Returns what authorized callers see, or the agent's text about its failure.
    fn apply(
        &self,
        state: &mut State,
        call: &Call,
        index: u64,
        authority: &Authority,
    ) -> Result<Seen, String> {
        match self {
            Self::Key(operation) => {
                let tables = state.tables_mut(&operation.tenancy);
                let shown = operation.apply(tables, call, index)?;
                let all = shown.len();
                let seen = shown
                    .into_iter()
                    .filter(|(_, key)| authority.reads_key(key));
                let seen: Vec<_> = seen.map(|(shown, _)| OneResult::Key(shown)).collect();
                let filtered = seen.len() < all;
                Ok(Seen { seen, filtered })
            }
            Self::Node(operation) => {
                let shown = operation.apply(state, index)?;
                let is_seen = authority.reads_node(operation.name());
                let seen = is_seen.then_some(OneResult::Node(shown));
                Ok(Seen {
                    seen: seen.into_iter().collect(),
                    filtered: !is_seen,
                })
            }
        }
    }

    /// What the leader checks before it enters the log.
    fn check(&self, state: &State, call: &Call, authority: &Authority) -> Option<String> {
        match self {
            Self::Key(operation) => operation.check(state, call, authority),
            Self::Node(operation) => operation.check(authority),
        }
    }
}

/// An operation on a key. Its verb is not checked yet.
pub(super) struct KeyOperation {
    pub(super) tenancy: Tenancy,
    pub(super) verb: String,
    pub(super) entry: Entry,
    /// The index to compare with, if the verb compares one.
    pub(super) index: u64,
}

impl KeyOperation {
    fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "set" | "delete" | "delete-cas" | "delete-tree" | "cas" | "lock" | "unlock"
        )
    }

    /// Whether the verb exists.
    fn is_known(&self, release: &Release) -> bool {
        let reads = [
            "get",
            "get-tree",
            "check-session",
            "check-index",
            "check-not-exists",
        ];
        let is_newer = release.get_or_empty && self.verb == "get-or-empty";
        self.is_write() || is_newer || reads.contains(&self.verb.as_str())
    }

    /// Applies the operation to its namespace. Returns what it shows, each entry with its key, or
    /// the agent's text about its failure.
    fn apply(
        &self,
        tables: &mut Tables,
        call: &Call,
        index: u64,
    ) -> Result<Vec<(Shown, Vec<u8>)>, String> {
        let key = self.entry.key.as_slice();
        let name = format!("{:?}", self.entry.key());
        let entry = self.entry.clone();
        let written = |entry: &Entry| vec![(Shown::without_value(entry), entry.key.clone())];
        let read = |entry: &Entry| (Shown::new(entry), entry.key.clone());
        match self.verb.as_str() {
            "set" => Ok(written(&tables.store.set(index, entry, false))),
            "cas" => match tables.store.set_cas(index, self.index, entry) {
                Some(entry) => Ok(written(&entry)),
                None => Err(format!("failed to set key {name}, index is stale")),
            },
            "lock" => match kv::lock(tables, index, entry)? {
                Some(entry) => Ok(written(&entry)),
                None => Err(format!("failed to lock key {name}, lock is already held")),
            },
            "unlock" => match kv::unlock(tables, index, entry)? {
                Some(entry) => Ok(written(&entry)),
                None => Err(format!(
                    "failed to unlock key {name}, lock isn't held, or is held by another session"
                )),
            },
            "delete" => {
                tables.store.delete(call.now, index, key);
                Ok(Vec::new())
            }
            "delete-cas" => {
                if tables.store.delete_cas(call.now, index, self.index, key) {
                    Ok(Vec::new())
                } else {
                    Err(format!("failed to delete key {name}, index is stale"))
                }
            }
            "delete-tree" => {
                tables.store.delete_tree(call.now, index, key);
                Ok(Vec::new())
            }
            "get" => match tables.store.get(key) {
                Some(entry) => Ok(vec![read(entry)]),
                None => Err(format!("key {name} doesn't exist")),
            },
            "get-or-empty" if call.release().get_or_empty => {
                // For a missing key the answer repeats the operation's fields without the value
                // (seen on 1.22.0).
                let sent = || Entry {
                    value: Vec::new(),
                    modify_index: self.index,
                    ..self.entry.clone()
                };
                let found = tables.store.get(key);
                Ok(vec![found.map_or_else(|| read(&sent()), read)])
            }
            "get-tree" => Ok(tables.store.list(key).map(read).collect()),
            "check-session" => match tables.store.get(key) {
                None => Err(format!("failed to check session, key {name} doesn't exist")),
                Some(found) if found.session != self.entry.session => Err(format!(
                    "failed session check for key {name}, current session {:?} != {:?}",
                    found.session, self.entry.session
                )),
                Some(found) => Ok(written(found)),
            },
            "check-index" => match tables.store.get(key) {
                None => Err(format!("failed to check index, key {name} doesn't exist")),
                Some(found) if found.modify_index != self.index => Err(format!(
                    "failed index check for key {name}, current modify index {} != {}",
                    found.modify_index, self.index
                )),
                Some(found) => Ok(written(found)),
            },
            "check-not-exists" => match tables.store.get(key) {
                Some(_) => Err(format!("key {name} exists")),
                None => Ok(Vec::new()),
            },
            unknown => Err(format!("unknown KV verb {unknown:?}")),
        }
    }

    fn check(&self, state: &State, call: &Call, authority: &Authority) -> Option<String> {
        let key = self.entry.key.as_slice();
        if key.is_empty() && self.verb != "delete-tree" {
            return Some("Must provide key".to_owned());
        }
        let release = call.release();
        if release.unknown_verb == UnknownVerb::FoundAtOnce && !self.is_known(release) {
            return Some(format!("unknown KV operation: {}", self.verb));
        }
        let (is_permitted, permission) = match self.verb.as_str() {
            "delete-tree" => (authority.writes_tree(key), "key:write"),
            "get" | "get-tree" => (true, "key:read"),
            "get-or-empty" if release.get_or_empty => (true, "key:read"),
            "check-session" | "check-index" => (authority.reads_key(key), "key:read"),
            _ => (authority.writes_key(key), "key:write"),
        };
        if !is_permitted {
            return Some(acl::denial(permission, key));
        }
        let sessions = &state.tables(&self.tenancy).sessions;
        let is_delayed = self.verb == "lock" && sessions.is_delayed(call.now, key);
        is_delayed.then(|| {
            let name = format!("{:?}", self.entry.key());
            format!("failed to lock key {name} due to lock delay")
        })
    }
}

/// What the leader checks before a transaction enters the log: keys, permissions, lock delays.
fn pre_check(
    state: &State,
    call: &Call,
    authority: &Authority,
    operations: &[Operation],
) -> Vec<Fault> {
    (0..)
        .zip(operations)
        .filter_map(|(op_index, operation)| {
            let what = operation.check(state, call, authority)?;
            Some(Fault { op_index, what })
        })
        .collect()
}
