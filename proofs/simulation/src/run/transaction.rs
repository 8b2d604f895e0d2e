//! The parts of our transactions that the checks use.

use semaphore_core::sans_io::Request;
use serde_json::Value;
use transport_mock::RequestKind;

/// The operations of a transaction.
pub(super) struct Transaction(Vec<Value>);

impl Transaction {
    /// The operations of a request, if it is a transaction.
    pub(super) fn of(request: &Request) -> Option<Self> {
        if RequestKind::of(request) != RequestKind::Txn {
            return None;
        }
        let body = serde_json::from_slice::<Value>(request.body()).ok();
        let operations = body.as_ref().and_then(Value::as_array).into_iter();
        let keys = operations.flatten().map(|it| it["KV"].clone());
        Some(Self(keys.collect()))
    }

    /// The keys in it.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|it| it["Key"].as_str())
    }

    /// Whether everything that it does to this key depends on the key's earlier state.
    pub(super) fn is_check_and_set(&self, key: &str) -> bool {
        let of_key = self.0.iter().filter(|it| it["Key"] == *key);
        let is_bound = |it: &Value| is_read(it) || it["Verb"] == "cas";
        of_key.into_iter().all(is_bound)
    }

    /// Whether it only acquires or releases this key, as it was read.
    pub(super) fn is_of_session(&self, key: &str) -> bool {
        let of_key = || self.0.iter().filter(|it| it["Key"] == *key);
        let is_bound = |it: &Value| it["Verb"] == "check-index" || it["Verb"] == "check-not-exists";
        of_key().any(is_bound)
            && of_key().all(|it| is_read(it) || it["Verb"] == "lock" || it["Verb"] == "unlock")
    }

    /// The session for which it acquires a key, if it does nothing else.
    pub(super) fn only_tied(&self) -> Option<&str> {
        let mut writes = self.0.iter().filter(|it| !is_read(it));
        let write = writes.next().filter(|it| it["Verb"] == "lock")?;
        let session = write["Session"].as_str();
        session.filter(|_| writes.next().is_none())
    }

    /// The sessions whose contender keys it acquires or checks. It admits those of them that are
    /// holders afterwards.
    pub(super) fn tied(&self) -> impl Iterator<Item = &str> {
        let ties = |it: &&Value| it["Verb"] == "lock" || it["Verb"] == "check-session";
        let sessions = self.0.iter().filter(ties);
        sessions
            .filter_map(|it| it["Session"].as_str())
            .filter(|session| !session.is_empty())
    }
}

fn is_read(operation: &Value) -> bool {
    let reads = [
        "get",
        "get-tree",
        "check-session",
        "check-index",
        "check-not-exists",
    ];
    reads.contains(&operation["Verb"].as_str().unwrap_or_default())
}
