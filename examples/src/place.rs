//! The place of a host's contender in Consul's queue, found in its traffic.
//!
//! The order of the queue is that of the contender keys' `CreateIndex`. A client does not get it
//! when it writes its key (only the result of a transaction has it). But every list of the prefix
//! shows it, and waiters read lists. So the answers to a host's own requests are searched until
//! they show its key, without further requests. The times of answers would be wrong: the answers to
//! simultaneous writes come in any order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use percent_encoding::percent_decode_str;
use semaphore_core::sans_io::Request;
use serde::Deserialize;
use transport_mock::RequestKind;

/// The place of a host that has one contender at a time.
#[derive(Debug, Default)]
pub struct Place(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    key: Option<String>,
    index: Option<u64>,
    /// The index of its former key. An answer under way may still show it.
    last: u64,
}

impl Place {
    /// Its key's `CreateIndex`, if an answer has shown it since the key was written.
    pub fn index(&self) -> Option<u64> {
        self.lock().index
    }

    /// Looks at a request before it is sent: a request that ties a key to a session begins a place.
    pub fn asks(&self, kind: RequestKind, request: &Request) {
        let Some(key) = tied_key(kind, request) else {
            return;
        };
        let mut seen = self.lock();
        seen.last = seen.index.take().unwrap_or(seen.last);
        seen.key = Some(key);
    }

    /// Looks at the body of an answer.
    pub fn hears(&self, body: &[u8]) {
        let mut seen = self.lock();
        let Seen {
            key: Some(key),
            index: None,
            last,
        } = &*seen
        else {
            return;
        };
        let own = entries(body)
            .into_iter()
            .find(|entry| entry.key == *key && entry.create_index > *last);
        seen.index = own.map(|entry| entry.create_index);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    create_index: u64,
}

/// The answer to a transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Results {
    results: Option<Vec<Operation<Entry>>>,
}

#[derive(Debug, Deserialize)]
struct Operation<T> {
    #[serde(rename = "KV")]
    kv: Option<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Write {
    verb: String,
    key: String,
}

/// The entries in an answer. Most answers have none.
fn entries(body: &[u8]) -> Vec<Entry> {
    match body.first() {
        Some(b'[') => serde_json::from_slice(body).unwrap_or_default(),
        Some(b'{') => {
            let results: Option<Results> = serde_json::from_slice(body).ok();
            let results = results.and_then(|body| body.results).unwrap_or_default();
            results.into_iter().filter_map(|result| result.kv).collect()
        }
        _ => Vec::new(),
    }
}

/// The key that a request ties to a session, alone or in a transaction.
fn tied_key(kind: RequestKind, request: &Request) -> Option<String> {
    match kind {
        RequestKind::KvAcquire => {
            let (path, _) = request.target().split_once('?')?;
            let key = percent_decode_str(path.strip_prefix("/v1/kv/")?);
            Some(key.decode_utf8().ok()?.into_owned())
        }
        RequestKind::Txn => {
            let operations: Vec<Operation<Write>> = serde_json::from_slice(request.body()).ok()?;
            let writes = || {
                operations
                    .iter()
                    .filter_map(|operation| operation.kv.as_ref())
            };
            // A claim checks the index of a key that is there. Who prunes locks a key of another
            // contender.
            let is_new = |key: &str| {
                let mut checks = writes().filter(|it| it.verb == "check-not-exists");
                checks.any(|it| it.key == key)
            };
            writes()
                .find(|write| write.verb == "lock" && is_new(&write.key))
                .map(|write| write.key.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use semaphore_core::sans_io::Method;

    use super::*;

    fn asks(place: &Place, method: Method, target: &str, body: &str) {
        let request = Request::new(method, target).with_body(body);
        place.asks(RequestKind::of(&request), &request);
    }

    fn list(entries: &[(&str, u64)]) -> Vec<u8> {
        let entry = |(key, index): &(&str, u64)| {
            format!(
                r#"{{"LockIndex":1,"Key":"{key}","Value":null,"CreateIndex":{index},"ModifyIndex":99}}"#
            )
        };
        let entries: Vec<_> = entries.iter().map(entry).collect();
        format!("[{}]", entries.join(",")).into_bytes()
    }

    #[test]
    fn a_list_shows_the_place_of_a_key_that_was_acquired() {
        let place = Place::default();
        place.hears(&list(&[("a b/x", 7)]));
        assert_eq!(place.index(), None);
        asks(&place, Method::Put, "/v1/kv/a%20b/x?acquire=s&flags=1", "");
        place.hears(b"true");
        place.hears(&list(&[("a b/.lock", 5)]));
        assert_eq!(place.index(), None);
        place.hears(&list(&[("a b/.lock", 5), ("a b/x", 7), ("a b/y", 6)]));
        assert_eq!(place.index(), Some(7));
    }

    #[test]
    fn the_result_of_a_transaction_shows_it_at_once() {
        let place = Place::default();
        let body = r#"[{"KV":{"Verb":"check-not-exists","Key":"a/x"}},
            {"KV":{"Verb":"lock","Key":"a/x","Value":"","Session":"s"}},
            {"KV":{"Verb":"cas","Key":"a/.lock","Value":"","Index":5}}]"#;
        asks(&place, Method::Put, "/v1/txn", body);
        place.hears(br#"{"Results":null,"Errors":[{"OpIndex":0,"What":"index is stale"}]}"#);
        assert_eq!(place.index(), None);
        asks(&place, Method::Put, "/v1/txn", body);
        place.hears(
            br#"{"Results":[{"KV":{"Key":"a/.lock","CreateIndex":3,"ModifyIndex":9}},
                {"KV":{"Key":"a/x","CreateIndex":9,"ModifyIndex":9}}],"Errors":null}"#,
        );
        assert_eq!(place.index(), Some(9));
    }

    #[test]
    fn a_key_that_is_written_again_has_a_new_place() {
        let place = Place::default();
        let enter = || asks(&place, Method::Put, "/v1/kv/a/x?acquire=s", "");
        enter();
        place.hears(&list(&[("a/x", 7)]));
        enter();
        assert_eq!(place.index(), None);
        // This answer was under way.
        place.hears(&list(&[("a/x", 7)]));
        assert_eq!(place.index(), None);
        place.hears(&list(&[("a/x", 12)]));
        assert_eq!(place.index(), Some(12));
    }

    #[test]
    fn a_claim_leaves_a_key_in_its_place_and_may_prune_another() {
        let place = Place::default();
        let enter = r#"[{"KV":{"Verb":"check-not-exists","Key":"a/x"}},
            {"KV":{"Verb":"lock","Key":"a/x","Value":"","Session":"s"}}]"#;
        asks(&place, Method::Put, "/v1/txn", enter);
        place.hears(br#"{"Results":[{"KV":{"Key":"a/x","CreateIndex":9,"ModifyIndex":9}}]}"#);
        let claim = r#"[{"KV":{"Verb":"check-index","Key":"a/x","Index":9}},
            {"KV":{"Verb":"lock","Key":"a/x","Value":"","Session":"s","Flags":1}},
            {"KV":{"Verb":"lock","Key":"a/dead","Value":"","Session":"s"}},
            {"KV":{"Verb":"delete","Key":"a/dead"}},
            {"KV":{"Verb":"cas","Key":"a/.lock","Value":"","Index":5}}]"#;
        asks(&place, Method::Put, "/v1/txn", claim);
        assert_eq!(place.index(), Some(9));
    }

    #[test]
    fn other_requests_and_answers_are_passed_over() {
        let place = Place::default();
        for body in [
            "",
            "x",
            "[",
            "[{}]",
            "{",
            r#"[{"KV":{"Verb":"get","Key":"a"}}]"#,
        ] {
            asks(&place, Method::Put, "/v1/txn", body);
            asks(&place, Method::Put, "/v1/kv/a/x?cas=3", body);
            place.hears(body.as_bytes());
        }
        assert_eq!(place.index(), None);
    }
}
