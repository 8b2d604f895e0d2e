//! One request and its outcome, for those that count requests.

use core::time::Duration;

use crate::http::{Method, Request, Response};
use crate::transport::TransportError;

/// One request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchange {
    /// Its purpose: `session_create`, `session_renew`, `session_destroy`, `session_read`,
    /// `kv_read`, `kv_watch`, `kv_write`, `txn` or `other`.
    pub kind: &'static str,
    /// The status of its answer. `None` if there was no complete answer.
    pub status: Option<u16>,
    /// How long it took. The server holds a poll open.
    pub took: Duration,
}

impl Exchange {
    pub(crate) fn new(
        kind: &'static str,
        result: &Result<Response, TransportError>,
        took: Duration,
    ) -> Self {
        let status = result.as_ref().ok().map(Response::status);
        Self { kind, status, took }
    }
}

/// A request's purpose.
pub(crate) fn kind_of(request: &Request) -> &'static str {
    let path = request.path();
    match request.method() {
        _ if path.starts_with("/v1/session/create") => "session_create",
        _ if path.starts_with("/v1/session/renew/") => "session_renew",
        _ if path.starts_with("/v1/session/destroy/") => "session_destroy",
        _ if path.starts_with("/v1/session/") => "session_read",
        _ if path.starts_with("/v1/txn") => "txn",
        _ if !path.starts_with("/v1/kv/") => "other",
        Method::Get if request.is_long_poll() => "kv_watch",
        Method::Get => "kv_read",
        Method::Put | Method::Delete => "kv_write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_kind() {
        let kind = |method, target: &str| kind_of(&Request::new(method, target));
        assert_eq!(kind(Method::Put, "/v1/session/create"), "session_create");
        assert_eq!(kind(Method::Put, "/v1/session/renew/a"), "session_renew");
        assert_eq!(
            kind(Method::Put, "/v1/session/destroy/a"),
            "session_destroy"
        );
        assert_eq!(kind(Method::Get, "/v1/session/info/a?dc=b"), "session_read");
        assert_eq!(kind(Method::Put, "/v1/txn?dc=b"), "txn");
        assert_eq!(kind(Method::Get, "/v1/kv/a/?recurse"), "kv_read");
        assert_eq!(kind(Method::Put, "/v1/kv/a?acquire=b"), "kv_write");
        assert_eq!(kind(Method::Delete, "/v1/kv/a"), "kv_write");
        assert_eq!(kind(Method::Get, "/v1/agent/self"), "other");
        let poll = Request::new(Method::Get, "/v1/kv/a?index=1").as_long_poll();
        assert_eq!(kind_of(&poll), "kv_watch");
    }
}
