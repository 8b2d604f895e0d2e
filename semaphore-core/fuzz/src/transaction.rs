//! Transactions, as the oracle reads them: what one asks for, and what its answer shows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::Request;
use semaphore_core::api::{Txn, TxnOutcome};
use serde_json::{Value as Json, json};

/// The operations of a request that is a transaction.
pub(crate) struct Transaction(Vec<Json>);

/// A write of one key that is bound to an index.
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

    fn reads(&self) -> bool {
        self.0.iter().any(|it| it["Verb"] == "get-tree")
    }

    /// The entries that the prefix had right after it, as its answer shows. Where it was not read along
    /// they are those of `before`, less what it deletes, and with what it writes.
    pub(crate) fn entries_after(
        &self,
        lock: &str,
        before: &[Json],
        answer: &semaphore_core::Response,
    ) -> Option<Vec<Json>> {
        let Ok(TxnOutcome::Applied(_)) = Txn::parse(answer) else {
            return None;
        };
        let body: Json = serde_json::from_slice(answer.body()).ok()?;
        let results = body["Results"].as_array()?.iter();
        let mut results: Vec<_> = results.map(|it| it["KV"].clone()).collect();
        let returns = |it: &&Json| {
            it["Verb"] == "lock" || it["Verb"] == "cas" || it["Verb"] == "check-session"
        };
        let heads = self.0.iter().filter(returns).count();
        if results.len() < heads {
            return None;
        }
        let tree = results.split_off(heads);
        if self.reads() {
            return Some(tree);
        }
        let mut entries = before.to_vec();
        for it in self
            .0
            .iter()
            .filter(|it| it["Verb"] == "delete" || it["Verb"] == "delete-cas")
        {
            entries.retain(|entry| entry["Key"] != it["Key"]);
        }
        for (operation, mut head) in self.0.iter().filter(returns).zip(results) {
            if operation["Verb"] == "check-session" {
                continue;
            }
            let key = &operation["Key"];
            if key == lock {
                head["Value"] = operation["Value"].clone();
                head["Flags"] = operation["Flags"].clone();
            }
            entries.retain(|entry| entry["Key"] != *key);
            entries.push(head);
        }
        Some(entries)
    }
}

/// The answer to a list that shows these entries.
pub(crate) fn list_of(entries: &[Json]) -> semaphore_core::Response {
    let indexes = entries.iter().filter_map(|it| it["ModifyIndex"].as_u64());
    let index = indexes.max().unwrap_or(1);
    let body = json!(entries).to_string();
    semaphore_core::Response::new(200, body).with_header("X-Consul-Index", index.to_string())
}

fn decode(value: &Json) -> Vec<u8> {
    STANDARD
        .decode(value.as_str().unwrap_or_default())
        .expect("a value is Base64")
}
