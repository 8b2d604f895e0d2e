//! The parts of a transaction that are judged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use judge::Record;
use semaphore_core::sans_io::Request;
use serde_json::Value;

/// The operations of a transaction.
pub(super) struct Transaction(Vec<Value>);

impl Transaction {
    /// The operations of a request, if it is a transaction.
    pub(super) fn of(request: &Request) -> Option<Self> {
        if !request.target().starts_with("/v1/txn") {
            return None;
        }
        let body = serde_json::from_slice::<Value>(request.body()).ok();
        let operations = body.as_ref().and_then(Value::as_array).into_iter();
        let keys = operations.flatten().map(|it| it["KV"].clone());
        Some(Self(keys.collect()))
    }

    /// Whether it changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        self.0.iter().all(|it| is_read(&it["Verb"]))
    }

    /// Whether it changes this key with a verb that is not in `bound`.
    pub(super) fn writes_plainly(&self, key: &str, bound: &[&str]) -> bool {
        let is_bound = |it: &&Value| {
            let verb = it["Verb"].as_str().unwrap_or_default();
            bound.contains(&verb) || is_read(&it["Verb"])
        };
        let mut of_key = self.0.iter().filter(|it| it["Key"] == *key);
        !of_key.all(|it| is_bound(&it))
    }

    /// The holders in the record that it writes into this key.
    pub(super) fn holders_in(&self, key: &str) -> Option<Vec<String>> {
        let mut writes = self.0.iter().filter(|it| it["Key"] == *key);
        let write = writes.find(|it| it["Verb"] == "cas")?;
        let value = STANDARD.decode(write["Value"].as_str()?).ok()?;
        let record = Record::read(&value, write["Flags"].as_u64().unwrap_or_default())?;
        Some(record.holders().map(str::to_owned).collect())
    }

    /// Whether it acquires this contender key with another session, to remove a dead holder.
    pub(super) fn prunes(&self, key: &str) -> bool {
        let is_own = |it: &Value| it["Session"].as_str().is_some_and(|id| key.ends_with(id));
        let mut locks = self.0.iter().filter(|it| it["Verb"] == "lock");
        locks.any(|it| it["Key"] == *key && !is_own(it))
    }

    /// Whether it releases a key.
    pub(super) fn unlocks(&self) -> bool {
        self.0.iter().any(|it| it["Verb"] == "unlock")
    }

    /// The sessions whose contender keys it acquires or checks.
    pub(super) fn tied(&self) -> impl Iterator<Item = &str> {
        let ties = |it: &&Value| it["Verb"] == "lock" || it["Verb"] == "check-session";
        let sessions = self.0.iter().filter(ties);
        sessions
            .filter_map(|it| it["Session"].as_str())
            .filter(|session| !session.is_empty())
    }
}

fn is_read(verb: &Value) -> bool {
    let verb = verb.as_str().unwrap_or_default();
    verb.starts_with("get") || verb.starts_with("check")
}
