//! What other clients send and read, word by word: as the guide's `curl` commands and Go's client do.
//! Nothing here is the library's: a mistake that both made would hide itself.

use std::time::Duration;

use judge::{Record, Spelling};
use semaphore_core::sans_io::{Method, Request, Response};
use serde_json::{Value as Json, json};

/// The flags of a semaphore's keys in Go's client (`api/semaphore.go`), and of a lock's
/// (`api/lock.go`).
pub(in crate::run) const SEMAPHORE_FLAGS: u64 = 0xe0f6_9a2b_aa41_4de0;
pub(super) const LOCK_FLAGS: u64 = 0x2ddc_cbc0_58a5_0c18;

/// How long a blocking query may be held, and how long its client waits.
const WAIT: &str = "15s";
const WAITS_FOR: Duration = Duration::from_secs(25);

pub(super) fn create_session(ttl: Duration, lock_delay: Duration) -> Request {
    let body = json!({
        "TTL": format!("{}s", ttl.as_secs()),
        "LockDelay": format!("{}s", lock_delay.as_secs()),
        "Behavior": "delete",
    });
    put("session/create").with_body(body.to_string())
}

pub(super) fn renew(session: &str) -> Request {
    put(&format!("session/renew/{session}"))
}

pub(super) fn destroy(session: &str) -> Request {
    put(&format!("session/destroy/{session}"))
}

pub(super) fn acquire(key: &str, session: &str, value: &[u8], flags: u64) -> Request {
    put(&format!("kv/{key}?acquire={session}&flags={flags}")).with_body(value)
}

pub(super) fn release(key: &str, session: &str, value: &[u8], flags: u64) -> Request {
    put(&format!("kv/{key}?release={session}&flags={flags}")).with_body(value)
}

pub(super) fn cas(key: &str, index: u64, value: &[u8], flags: u64) -> Request {
    put(&format!("kv/{key}?cas={index}&flags={flags}")).with_body(value)
}

pub(super) fn delete(key: &str, index: Option<u64>) -> Request {
    let cas = index
        .map(|index| format!("?cas={index}"))
        .unwrap_or_default();
    Request::new(Method::Delete, format!("/v1/kv/{key}{cas}"))
}

/// A read of the key, or of the keys below it, that the leader confirms. With an index it waits for a
/// change.
pub(super) fn read(key: &str, recurses: bool, index: Option<u64>) -> Request {
    let recurse = if recurses { "&recurse" } else { "" };
    let wait = index.map(|index| format!("&index={index}&wait={WAIT}"));
    let wait = wait.unwrap_or_default();
    let target = format!("/v1/kv/{key}?consistent{recurse}{wait}");
    Request::new(Method::Get, target).with_timeout(WAITS_FOR)
}

fn put(path: &str) -> Request {
    Request::new(Method::Put, format!("/v1/{path}"))
}

/// What an endpoint says that answers with `true` or `false`.
pub(super) fn says(answer: &Response) -> Option<bool> {
    (answer.status() == 200)
        .then(|| serde_json::from_slice(answer.body()).ok())
        .flatten()
}

/// The value of a record.
pub(super) fn spell(record: &Record) -> Vec<u8> {
    let limit = record.limit();
    let holders: Vec<_> = record.holders().collect();
    let value = match record.spelling() {
        Spelling::Map => {
            let marked = holders
                .iter()
                .map(|it| ((*it).to_owned(), Json::Bool(true)));
            json!({"Limit": limit, "Holders": Json::Object(marked.collect())})
        }
        Spelling::List => json!({"Limit": limit, "Holders": holders}),
        Spelling::LowerList => json!({"limit": limit, "holders": holders}),
    };
    value.to_string().into_bytes()
}
