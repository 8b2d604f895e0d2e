//! Transactions for the oracle: the content of a request, and of its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::sans_io::Request;
use semaphore_core::sans_io::api::{Txn, TxnOutcome};
use serde_json::{Value as Json, json};

/// The operations of a request, if it is a transaction.
pub(crate) struct Transaction(Vec<Json>);

/// The content of a key.
pub(crate) enum Found {
    Entry(Json),
    Nothing,
}

/// A write of one key that depends on an index.
pub(crate) struct Cas {
    pub(crate) index: Option<u64>,
    pub(crate) flags: Option<u64>,
    pub(crate) value: Vec<u8>,
}

impl Transaction {
    pub(crate) fn of(request: &Request) -> Self {
        let body: Json = serde_json::from_slice(request.body()).expect("a transaction is JSON");
        let operations = body.as_array().expect("a transaction is a list");
        Self(operations.iter().map(|it| it["KV"].clone()).collect())
    }

    /// Each operation's verb and key.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |value: &'static str| move |it: &&Json| (*it)[value].is_string();
        let whole = self.0.iter().filter(text("Verb")).filter(text("Key"));
        whole.map(|it| {
            let member = |name: &str| it[name].as_str().unwrap_or_default();
            (member("Verb"), member("Key"))
        })
    }

    /// The sessions with which it locks keys.
    pub(crate) fn locks_with(&self) -> impl Iterator<Item = &str> {
        let locks = self.0.iter().filter(|it| it["Verb"] == "lock");
        locks.filter_map(|it| it["Session"].as_str())
    }

    /// Whether it has such an operation on this key.
    pub(crate) fn has(&self, verb: &str, key: &str) -> bool {
        self.operations().any(|it| it == (verb, key))
    }

    /// How it writes this key, if it does.
    pub(crate) fn write_of(&self, key: &str) -> Option<Cas> {
        let writes = |it: &&Json| it["Key"] == key && (it["Verb"] == "cas" || it["Verb"] == "set");
        let it = self.0.iter().find(writes)?;
        Some(Cas {
            index: it["Index"].as_u64().filter(|_| it["Verb"] == "cas"),
            flags: it["Flags"].as_u64(),
            value: decode(&it["Value"]),
        })
    }

    /// What this answer shows of a key that the transaction reads by its name. `None` if the
    /// transaction does not read it, or if there is no answer.
    pub(crate) fn record_read(
        &self,
        lock: &str,
        answer: &semaphore_core::sans_io::Response,
    ) -> Option<Found> {
        let gets = |it: &Json| it["Verb"] == "get" && it["Key"] == lock;
        let at = self.0.iter().position(gets)?;
        match Txn::parse(answer).ok()? {
            TxnOutcome::RolledBack(faults) => {
                let is_missing = |it: &semaphore_core::sans_io::api::TxnFault| it.operation == at;
                faults.iter().any(is_missing).then_some(Found::Nothing)
            }
            TxnOutcome::Applied(_) => {
                let body: Json = serde_json::from_slice(answer.body()).ok()?;
                let results = body["Results"].as_array()?.iter();
                let mut entries = results.map(|it| &it["KV"]);
                let entry = entries.rfind(|entry| entry["Key"] == lock)?;
                Some(Found::Entry(entry.clone()))
            }
        }
    }

    fn reads(&self) -> bool {
        self.0.iter().any(|it| it["Verb"] == "get-tree")
    }

    /// The entries of the prefix right after the transaction, as its answer shows them. If it does
    /// not read the prefix, they are those of `before` with the transaction's changes.
    pub(crate) fn entries_after(
        &self,
        lock: &str,
        before: &[Json],
        answer: &semaphore_core::sans_io::Response,
    ) -> Option<Vec<Json>> {
        let Ok(TxnOutcome::Applied(_)) = Txn::parse(answer) else {
            return None;
        };
        let body: Json = serde_json::from_slice(answer.body()).ok()?;
        let results = body["Results"].as_array()?.iter();
        let mut results: Vec<_> = results.map(|it| it["KV"].clone()).collect();
        let returns = |it: &&Json| {
            let verb = it["Verb"].as_str().unwrap_or_default();
            matches!(verb, "lock" | "cas" | "check-session" | "check-index")
        };
        let heads = self.0.iter().filter(returns).count();
        if results.len() < heads {
            return None;
        }
        let tree = results.split_off(heads);
        let mut entries = tree;
        if !self.reads() {
            entries = before.to_vec();
            for (_, key) in self.operations().filter(|(verb, _)| *verb == "delete") {
                entries.retain(|entry| entry["Key"] != key);
            }
        }
        let written = self.0.iter().filter(returns).zip(&results);
        let written = written.filter(|(it, _)| it["Verb"] == "lock" || it["Verb"] == "cas");
        let index = written.filter_map(|(_, head)| head["ModifyIndex"].as_u64());
        let index = index.max();
        for (operation, mut head) in self.0.iter().filter(returns).zip(results) {
            let verb = operation["Verb"].as_str().unwrap_or_default();
            let key = &operation["Key"];
            // What was written counts for more than what the tree shows.
            if verb.starts_with("check") || self.reads() && key != lock {
                continue;
            }
            if key == lock {
                // All that a transaction writes has its index.
                head["ModifyIndex"] = json!(index);
                head["Value"] = operation["Value"].clone();
                head["Flags"] = operation["Flags"].clone();
            }
            entries.retain(|entry| entry["Key"] != *key);
            entries.push(head);
        }
        Some(entries)
    }
}

/// The keys that a transaction's answer shows as locked: by which session, and the index of their creation.
pub(crate) fn locked(answer: &semaphore_core::sans_io::Response) -> Vec<(String, u64)> {
    let Ok(TxnOutcome::Applied(_)) = Txn::parse(answer) else {
        return Vec::new();
    };
    let body: Json = serde_json::from_slice(answer.body()).unwrap_or_default();
    let results = body["Results"].as_array().into_iter().flatten();
    let lock = |entry: &Json| {
        let session = entry["Session"].as_str()?;
        Some((session.to_owned(), entry["CreateIndex"].as_u64()?))
    };
    results.filter_map(|it| lock(&it["KV"])).collect()
}

/// A list's answer with these entries.
pub(crate) fn list_of(entries: &[Json]) -> semaphore_core::sans_io::Response {
    let indexes = entries.iter().filter_map(|it| it["ModifyIndex"].as_u64());
    let index = indexes.max().unwrap_or(1);
    let body = json!(entries).to_string();
    semaphore_core::sans_io::Response::new(200, body)
        .with_header("X-Consul-Index", index.to_string())
}

fn decode(value: &Json) -> Vec<u8> {
    STANDARD
        .decode(value.as_str().unwrap_or_default())
        .expect("a value is Base64")
}
