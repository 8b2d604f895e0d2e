//! The shapes of the agent's answers.

use core::time::Duration;

use semaphore_core::adapter::Response;
use serde::Serialize;

use super::go;
use super::profile::Redirect;

/// The content type that Go's server detects for text.
const TEXT: &str = "text/plain; charset=utf-8";

/// Plain text, as errors are.
pub(super) fn text(status: u16, text: impl Into<String>) -> Response {
    Response::new(status, text.into()).with_header("Content-Type", TEXT)
}

/// 500 with the error's text.
pub(super) fn failure(text: impl Into<String>) -> Response {
    self::text(500, text)
}

/// 400 for a wrong parameter.
pub(super) fn bad_request(text: impl Into<String>) -> Response {
    self::text(400, text)
}

/// JSON with a status.
pub(super) fn json_with(status: u16, value: &impl Serialize, pretty: bool) -> Response {
    Response::new(status, go::to_json(value, pretty))
        .with_header("Content-Type", "application/json")
}

/// 200 with JSON.
pub(super) fn json(value: &impl Serialize, pretty: bool) -> Response {
    json_with(200, value, pretty)
}

/// An empty 404.
pub(super) fn not_found() -> Response {
    Response::new(404, "")
}

/// 405, naming the methods that are allowed.
pub(super) fn method_not_allowed(method: &str, allowed: &[&str]) -> Response {
    text(405, format!("method {method} not allowed"))
        .with_header("Allow", format!("OPTIONS,{}", allowed.join(",")))
}

/// 301 or 307 to `location`.
pub(super) fn redirect(how: Redirect, location: &str) -> Response {
    let status = match how {
        Redirect::Moved => 301,
        Redirect::Temporary => 307,
    };
    Response::new(status, "").with_header("Location", location)
}

/// How fresh an answer to a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    pub(super) known_leader: bool,
    /// The time since the last contact with the leader.
    pub(super) last_contact: Duration,
    /// Whether a read says how it was answered.
    pub(super) tells_backend: bool,
}

impl Freshness {
    /// Adds the headers of freshness.
    pub(super) fn stamp(self, response: Response) -> Response {
        response
            .with_header("X-Consul-Knownleader", self.known_leader.to_string())
            .with_header(
                "X-Consul-Lastcontact",
                self.last_contact.as_millis().to_string(),
            )
    }

    /// Adds the headers of a read at `index`. The agent never shows the index 0, since a client
    /// could not wait on it.
    pub(super) fn stamp_at(self, index: u64, response: Response) -> Response {
        let response = response.with_header("X-Consul-Index", index.max(1).to_string());
        let response = self.stamp(response);
        if self.tells_backend {
            response.with_header("X-Consul-Query-Backend", "blocking-query")
        } else {
            response
        }
    }
}
