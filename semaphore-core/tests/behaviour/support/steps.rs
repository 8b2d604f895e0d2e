//! Recognizes the steps of the protocol in requests.
//!
//! | step | a transaction with | others' requests |
//! |---|---|---|
//! | enters | `lock` of a contender key, and no `cas` of the record | |
//! | writes the record | `cas` of `.lock` | `PUT ?cas` |
//! | deletes a key | `delete` or `delete-cas` | `DELETE`, also ours |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::sans_io::{Method, Record, Request, Response};
use serde_json::{Value, json};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

/// Recognizes a step.
pub(crate) type Is = fn(&Request) -> bool;

/// A check-and-set of the record.
#[derive(Clone, Debug)]
pub(crate) struct RecordWrite {
    pub(crate) value: Vec<u8>,
    /// The index that the write names.
    pub(crate) index: u64,
    pub(crate) flags: u64,
}

impl RecordWrite {
    pub(crate) fn holders(&self) -> Vec<String> {
        Record::decode(&self.value, self.flags).map_or_else(
            |_| Vec::new(),
            |record| record.holders().map(str::to_owned).collect(),
        )
    }
}

/// The write of the record in a request, if it has one.
pub(crate) fn record_write(request: &Request) -> Option<RecordWrite> {
    if is_transaction(request) {
        let cas = operations(request).into_iter().find(is_cas_of_record)?;
        return Some(RecordWrite {
            value: STANDARD.decode(cas["Value"].as_str()?).ok()?,
            index: cas["Index"].as_u64()?,
            flags: cas["Flags"].as_u64()?,
        });
    }
    let (path, query) = request.target().split_once('?')?;
    if request.method() != Method::Put || !path.ends_with("/.lock") {
        return None;
    }
    let number = |name| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name)?.1.parse().ok()
    };
    Some(RecordWrite {
        value: request.body().to_vec(),
        index: number("cas")?,
        flags: number("flags").unwrap_or(0),
    })
}

/// Whether a request makes its sender a contender, and nothing more.
pub(crate) fn enters(request: &Request) -> bool {
    ties_key(request) && !writes_record(request)
}

/// Whether a request acquires a contender key, whatever else it does.
pub(crate) fn ties_key(request: &Request) -> bool {
    is_transaction(request) && has(request, &["lock"])
}

pub(crate) fn writes_record(request: &Request) -> bool {
    record_write(request).is_some()
}

/// Whether a request writes the first record.
pub(crate) fn creates_record(request: &Request) -> bool {
    record_write(request).is_some_and(|write| write.index == 0)
}

/// Whether a request leaves holders in the record. If nobody else holds, it is the sender's claim.
pub(crate) fn claims(request: &Request) -> bool {
    record_write(request).is_some_and(|write| !write.holders().is_empty())
}

/// Whether a request gives a slot to somebody, if it is applied: it claims, or touches the key of a
/// slot that passes on.
pub(crate) fn gives_slot(request: &Request) -> bool {
    claims(request) || is_transaction(request) && has(request, &["check-index"]) && enters(request)
}

/// Whether a request removes the last holder from the record. A transaction also deletes its key.
pub(crate) fn withdraws(request: &Request) -> bool {
    record_write(request).is_some_and(|write| write.index != 0 && write.holders().is_empty())
}

/// Whether a request deletes a key, whatever else it does.
pub(crate) fn deletes_key(request: &Request) -> bool {
    if is_transaction(request) {
        has(request, &["delete", "delete-cas"])
    } else {
        request.method() == Method::Delete
    }
}

pub(crate) fn creates_session(request: &Request) -> bool {
    RequestKind::of(request) == RequestKind::SessionCreate
}

pub(crate) fn renews_session(request: &Request) -> bool {
    RequestKind::of(request) == RequestKind::SessionRenew
}

pub(crate) fn destroys_session(request: &Request) -> bool {
    RequestKind::of(request) == RequestKind::SessionDestroy
}

pub(crate) fn is_transaction(request: &Request) -> bool {
    RequestKind::of(request) == RequestKind::Txn
}

/// The operations of a transaction.
pub(crate) fn operations(request: &Request) -> Vec<Value> {
    let body: Vec<Value> = serde_json::from_slice(request.body()).expect("operations");
    body.into_iter()
        .map(|operation| operation["KV"].clone())
        .collect()
}

/// The verbs of a transaction's operations, in order.
pub(crate) fn verbs(request: &Request) -> Vec<String> {
    let verb = |it: &Value| it["Verb"].as_str().map(str::to_owned);
    operations(request).iter().filter_map(verb).collect()
}

/// A request in one line, with the keys of a transaction.
pub(crate) fn line(request: &Request) -> String {
    let mut line = format!("{} {}", request.method(), request.target());
    if is_transaction(request) {
        for operation in operations(request) {
            let text = |name| operation[name].as_str().unwrap_or_default();
            for word in ["Verb", "Key"].map(text) {
                line.extend([" ", word]);
            }
        }
    }
    line
}

/// Answers every such write of the record as if the record had changed before.
pub(crate) fn refuse(world: &MockConsul, host: &str, is: Is) {
    // The answer names the operation that failed.
    for at in 0..64 {
        let errors = json!([{
            "OpIndex": at,
            "What": r#"failed to set key "service/db/.lock", index is stale"#,
        }]);
        let body = json!({"Results": null, "Errors": errors}).to_string();
        let refused = Fault::Answer(Response::new(409, body));
        let rule = Rule::new(refused).host(host).always().optional();
        world.inject(rule.matching(move |it| {
            is_transaction(it)
                && is(it)
                && operations(it).iter().position(is_cas_of_record) == Some(at)
        }));
    }
}

fn has(request: &Request, wanted: &[&str]) -> bool {
    verbs(request)
        .iter()
        .any(|it| wanted.contains(&it.as_str()))
}

fn is_cas_of_record(operation: &Value) -> bool {
    let ends = |key: &str| key.ends_with("/.lock");
    operation["Verb"] == "cas" && operation["Key"].as_str().is_some_and(ends)
}
