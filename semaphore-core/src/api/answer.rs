//! What an answer means before its body is read: success, refused for now, or refused permanently.
//!
//! L4 defines the classes. Consul answers almost every problem with a 500, so the text decides:
//! known refusals are permanent, and everything else is a server in trouble.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::asked::Asked;
use crate::defect::{Defect, is_on};
use crate::error::{ParseError, RequestError};
use crate::http::Response;
use crate::id::Index;

/// The body of an answer with status 200. Any other status is an error.
pub(super) fn served(response: &Response) -> Result<&[u8], RequestError> {
    match response.status() {
        200 => Ok(response.body()),
        status => Err(refused(status, response)),
    }
}

/// The answer `true` or `false` of a write.
pub(crate) fn flag(response: &Response) -> Result<bool, RequestError> {
    match served(response)?.trim_ascii() {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(RequestError::garbled("neither true nor false").of(response)),
    }
}

/// A JSON document.
pub(super) fn json<T: DeserializeOwned>(
    response: &Response,
    what: &'static str,
) -> Result<T, RequestError> {
    let read = serde_json::from_slice(served(response)?);
    read.map_err(|error| garbled(what, error).of(response))
}

/// `X-Consul-Index`: where a blocking query continues.
///
/// A gateway may drop it. What a success shows is still true, but nothing can wait on it: its index
/// is zero, with which Consul does not block. Nothing else shows that an absence is Consul's word.
pub(super) fn index(response: &Response, what: &'static str) -> Result<Index, RequestError> {
    if is_any_404_believed(response.status()) {
        return Ok(Index(1));
    }
    let index = match response.header("X-Consul-Index") {
        Some(index) => index.trim().parse().ok().map(Index),
        None => (response.status() == 200).then_some(Index::ZERO),
    };
    index.ok_or_else(|| RequestError::garbled(what).of(response))
}

/// The slip of a defect: any 404 is taken for Consul's.
fn is_any_404_believed(status: u16) -> bool {
    status == 404 && is_on(Defect::Html404Believed)
}

/// The answer to a read, but for the index that it lacks. `None` if it has one, or is no success.
pub(crate) fn lacks_index(response: &Response) -> Option<RequestError> {
    let is_lacking = response.status() == 200 && response.header("X-Consul-Index").is_none();
    is_lacking.then(|| RequestError::garbled(WITHOUT_INDEX).of(response))
}

/// What a read lacks behind a gateway that drops the header.
pub(super) const WITHOUT_INDEX: &str =
    "it has no X-Consul-Index, as if a gateway had dropped that header";

/// Whether the server says that it left keys out because of missing permissions.
pub(crate) fn is_filtered(response: &Response) -> bool {
    response
        .header("X-Consul-Results-Filtered-By-ACLs")
        .is_some_and(|filtered| filtered.trim().eq_ignore_ascii_case("true"))
}

/// Something that the token may not see may still exist.
pub(super) fn hidden(what: &str) -> RequestError {
    RequestError::Denied {
        text: format!("the answer leaves out the {what}, which the token may not read"),
        asked: Asked::default(),
    }
}

/// An answer that is not what Consul sends.
pub(super) fn garbled(what: &'static str, source: impl std::error::Error) -> RequestError {
    let said = excerpt(source.to_string().as_bytes());
    RequestError::Garbled {
        what,
        source: Some(Arc::new(ParseError::new(said))),
        asked: Asked::default(),
    }
}

/// A refusal that is not about the request: a permission is missing, or something else answers in
/// Consul's place. It may pass.
///
/// Consul's own 404 has an index or names the session, except for an unknown path, such as that of
/// transactions. Its 400, 405 and 413 are lines of text.
pub(crate) fn refusal(response: &Response, is_transaction: bool) -> Option<RequestError> {
    let status = response.status();
    let body = response.body().trim_ascii_start();
    let is_document = body.starts_with(b"<") || body.starts_with(b"{");
    let text = excerpt(response.body());
    let is_own_404 = || response.header("X-Consul-Index").is_some() || text.contains("Session id");
    let is_one = match status {
        300..=399 | 401 | 403 => true,
        _ if is_any_404_believed(status) => false,
        404 if !is_transaction => !is_own_404(),
        400 | 404 | 405 | 413 => is_document,
        500 => mentions(&text, DENIED),
        _ => false,
    };
    is_one.then(|| refused(status, response))
}

/// Whether the answer says that the token is unknown or lacks a permission.
pub(crate) fn is_denied(response: &Response) -> bool {
    match response.status() {
        403 => true,
        500 => mentions(&excerpt(response.body()), DENIED),
        _ => false,
    }
}

/// Whether the answer says that its sender can't serve anything now: a server without a leader, or
/// a gateway without a server. Another server may.
pub(crate) fn is_out_of_service(response: &Response) -> bool {
    match served(response) {
        Err(error @ RequestError::Unavailable { .. }) => !error.is_rate_limit(),
        _ => false,
    }
}

/// Why nothing is served at the moment, whatever the request was, or `None`. It may pass.
pub(crate) fn trouble(response: &Response) -> Option<RequestError> {
    match served(response) {
        // Consul answers with JSON or one word.
        Ok(body) if body.trim_ascii_start().starts_with(b"<") => Some(RequestError::Garbled {
            what: "a page in place of an answer",
            asked: response.asked().clone(),
            source: None,
        }),
        Ok(_) => None,
        Err(error) => Some(error).filter(|error| !error.is_permanent()),
    }
}

fn refused(status: u16, response: &Response) -> RequestError {
    let text = excerpt(response.body());
    let asked = response.asked().clone();
    match status {
        301..=303 | 307 | 308 => RequestError::Redirected {
            status,
            location: excerpt(response.header("Location").unwrap_or_default().as_bytes()),
            asked,
        },
        403 => RequestError::Denied { text, asked },
        500 if mentions(&text, INVALID_KEY) => RequestError::InvalidKey { text, asked },
        400 if mentions(&text, INVALID_KEY_IN_TXN) => RequestError::InvalidKey { text, asked },
        500 if mentions(&text, SESSION_GONE) => RequestError::InvalidSession { text, asked },
        500 if mentions(&text, DENIED) => RequestError::Denied { text, asked },
        500 if mentions(&text, REJECTED) => RequestError::Rejected {
            status,
            text,
            asked,
        },
        408 | 425 | 429 | 500 | 502..=599 => RequestError::Unavailable {
            status,
            text,
            asked,
        },
        200..=299 => RequestError::Garbled {
            what: "a success without an answer",
            source: None,
            asked,
        },
        _ => RequestError::Rejected {
            status,
            text,
            asked,
        },
    }
}

/// The answer to a write with a dead session.
const SESSION_GONE: &[&str] = &["invalid session \"", "invalid session '"];

/// A server found a permission missing after its agent had passed the request on.
const DENIED: &[&str] = &["permission denied", "acl not found"];

/// How an agent from 1.21.5 refuses a key, on `/v1/kv` and in a transaction. The rules depend on
/// the release of the agent that is asked.
const INVALID_KEY: &[&str] = &["invalid key name, "];
const INVALID_KEY_IN_TXN: &[&str] = &["invalid key in transaction: "];

/// Requests that no server will ever serve. An agent may put a prefix before its text, such as
/// `rpc error making call: ` for each hop, or `raft apply failed: ` (from 1.10).
const REJECTED: &[&str] = &[
    "session ttl '",
    "invalid behavior setting",
    "missing node registration",
    "must provide node",
    "missing check '",
    "failed check lookup",
    "failed session lookup",
    "missing session",
    "cross datacenter lock must be created at server agent",
];

fn mentions(text: &str, fragments: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    fragments.iter().any(|fragment| text.contains(fragment))
}

/// The beginning of an external text, made fit for one line of a log.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const MAX: usize = 200;
    let head = &bytes[..bytes.len().min(4 * MAX)];
    String::from_utf8_lossy(head)
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, text: &str) -> RequestError {
        served(&Response::new(status, text)).unwrap_err()
    }

    #[test]
    fn what_passes_by_itself_is_transient() {
        for (status, text) in [
            (500, "No cluster leader"),
            (500, "rpc error making call: EOF"),
            (500, "leadership lost while committing log"),
            (429, "Your IP is issuing too many concurrent connections"),
            (502, "<html>Bad Gateway</html>"),
            (
                429,
                "rate limit exceeded, try again later or against a different server",
            ),
            (503, "<html>Service Unavailable</html>"),
            (504, ""),
            // A server that has just started does not know the others yet.
            (500, "No path to datacenter"),
            (500, "rpc error making call: No path to datacenter"),
        ] {
            let error = error(status, text);
            assert!(!error.is_permanent(), "{error}");
            assert_eq!(error.was_not_applied(), status == 429, "{error}");
        }
    }

    /// A rate limit refuses requests before it looks at them.
    #[test]
    fn what_a_rate_limit_refuses_was_not_applied() {
        let limited = "rate limit exceeded for operation that can only be performed by the leader, try again later";
        let error = error(503, limited);
        assert!(!error.is_permanent() && error.was_not_applied(), "{error}");
        assert!(error.is_rate_limit());
    }

    #[test]
    fn a_key_that_an_agent_does_not_take_is_told_with_its_rule() {
        for (status, text) in [
            (
                500,
                "invalid key name, leading/trailing spaces are not allowed",
            ),
            (
                500,
                "rpc error making call: invalid key name, must not begin with '/'",
            ),
            (
                400,
                "Invalid key in transaction: empty key name is not allowed",
            ),
        ] {
            let error = error(status, text);
            assert!(matches!(error, RequestError::InvalidKey { .. }), "{error}");
            assert!(error.is_permanent() && error.was_not_applied(), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn what_no_retry_mends_is_permanent() {
        for (status, text) in [
            (400, "Request decode failed: EOF"),
            (403, "Permission denied"),
            (404, "page not found"),
            (405, "method not allowed"),
            (413, "Request body too large"),
            (
                500,
                "Invalid Session TTL '5', must be between [10s=24h0m0s]",
            ),
            (500, "Invalid Behavior setting 'x'"),
            (500, "Missing node registration"),
            (500, "rpc error making call: Permission denied"),
            (
                500,
                "invalid session \"4ca8e74b-6350-7587-addf-a18084928f3c\"",
            ),
            (
                500,
                "failed session lookup: index error: UUID must be 36 characters",
            ),
            (
                500,
                "Session TTL '15' invalid: time: missing unit in duration",
            ),
            (500, "raft apply failed: missing session"),
            (500, "apply failed: Missing check 'one' registration"),
            (500, "Must provide Node"),
            (500, "cross datacenter lock must be created at server agent"),
        ] {
            let error = error(status, text);
            assert!(error.is_permanent(), "{error}");
            assert!(error.was_not_applied(), "{error}");
        }
    }

    #[test]
    fn a_redirect_names_its_target_and_is_not_followed() {
        let response = Response::new(301, "").with_header("location", "/v1/kv/a/b");
        let error = served(&response).unwrap_err();
        assert!(error.is_permanent());
        assert!(error.to_string().contains("/v1/kv/a/b"));
    }

    #[test]
    fn a_success_that_is_not_200_is_no_answer() {
        for status in [201, 204, 299] {
            let error = error(status, "");
            assert!(matches!(error, RequestError::Garbled { .. }), "{error}");
        }
    }

    #[test]
    fn an_excerpt_is_counted_in_characters() {
        assert_eq!(excerpt("é🙂".repeat(300).as_bytes()), "é🙂".repeat(100));
    }

    #[test]
    fn an_excerpt_of_a_hostile_body_is_one_short_line() {
        let text = excerpt("line\r\nline\u{7}".repeat(10_000).as_bytes());
        assert!(text.len() <= 200);
        assert!(!text.chars().any(char::is_control));
    }
}
