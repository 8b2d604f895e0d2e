//! What a refusal means to a client: the class that the core gives it. Releases word refusals
//! differently, and only what decides the class must be the same.

use semaphore_core::RequestError;
use semaphore_core::adapter::Response;
use semaphore_core::sans_io::api::{
    CasKey, CreateSession, DestroySession, ListKeys, ReadKey, RenewSession, SessionInfo, Txn,
    TxnOutcome,
};

use crate::script::Wire;

/// How closely the statuses of redirects are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    TheSame,
    /// The agent's status depends on the version of Go that it was built with.
    OfAnyStatus,
}

/// The class of a refusal, or `None` for any other answer.
pub(crate) fn of_refusal(wire: &Wire, response: &Response) -> Option<String> {
    if response.status() < 300 {
        return None;
    }
    let path = wire.target.split('?').next().unwrap_or_default();
    let is = |start: &str| path.starts_with(start);
    let is_tree = ["?recurse", "&recurse", "?keys", "&keys"];
    let is_tree = is_tree.iter().any(|name| wire.target.contains(name));
    let class = if is("/v1/txn") {
        Txn::parse(response).map(|outcome| match outcome {
            TxnOutcome::Applied(_) => "applied".to_owned(),
            TxnOutcome::RolledBack(faults) => {
                let faults = faults.iter().map(|it| (it.operation, it.kind));
                format!("rolled back: {:?}", faults.collect::<Vec<_>>())
            }
        })
    } else if is("/v1/session/create") {
        CreateSession::parse(response).map(|_| "created".to_owned())
    } else if is("/v1/session/renew") {
        RenewSession::parse(response).map(|_| "renewed".to_owned())
    } else if is("/v1/session/info") {
        SessionInfo::parse(response).map(|found| format!("found: {}", found.is_some()))
    } else if is("/v1/kv/") && wire.method.as_str() != "GET" {
        CasKey::parse(response).map(|applied| format!("applied: {applied}"))
    } else if is("/v1/kv/") && is_tree {
        ListKeys::parse(response).map(|list| format!("{} entries", list.entries.len()))
    } else if is("/v1/kv/") {
        ReadKey::parse(response).map(|found| format!("found: {}", found.is_some()))
    } else {
        DestroySession::parse(response).map(|()| "done".to_owned())
    };
    Some(class.unwrap_or_else(|error| name_of(&error)))
}

fn name_of(error: &RequestError) -> String {
    let debug = format!("{error:?}");
    let name = debug.split([' ', '(']).next().unwrap_or_default();
    let lasts = if error.is_permanent() {
        "for good"
    } else {
        "for now"
    };
    format!("{name}, {lasts}")
}
