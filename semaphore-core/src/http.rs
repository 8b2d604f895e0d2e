//! What is sent to Consul and what comes back, described without an HTTP library.

use core::fmt;
use core::time::Duration;

use crate::token::Token;

/// The HTTP methods that the protocol uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
}

impl Method {
    /// The method as it stands in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One HTTP request to a Consul agent: everything but the agent's address.
///
/// `Debug` never shows the token, and shows the body by its length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    method: Method,
    target: String,
    token: Option<Token>,
    body: Vec<u8>,
    timeout: Duration,
    long_poll: bool,
}

impl Request {
    /// A request with an empty body and a timeout of ten seconds.
    ///
    /// `target` is the path and query in origin form, already percent-encoded, for example
    /// `/v1/kv/service/db/?recurse=`.
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            token: None,
            body: Vec::new(),
            timeout: Duration::from_secs(10),
            long_poll: false,
        }
    }

    /// The same request with this body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The same request with this ACL token, sent as `X-Consul-Token`.
    #[must_use]
    pub fn with_token(mut self, token: Option<Token>) -> Self {
        self.token = token;
        self
    }

    /// The same request, given up after `timeout`.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same request, marked as a blocking query that the server may hold open for long.
    #[must_use]
    pub fn as_long_poll(mut self) -> Self {
        self.long_poll = true;
        self
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Path and query, percent-encoded, beginning with `/v1/`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The headers to send beside the ones that HTTP itself asks for. The value of
    /// `X-Consul-Token` is a secret.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.token
            .iter()
            .map(|token| ("X-Consul-Token", token.reveal()))
    }

    /// The body. Send it with a `Content-Length`, also when it is empty: Consul ignores a
    /// chunked body of a session's creation.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, taken out without a copy.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// From the start of the request to the last byte of its answer, this long at most. The
    /// transport ends it then with [`TransportErrorKind::Timeout`](crate::TransportErrorKind::Timeout).
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the server may hold this request open for many seconds. Never run these through
    /// a bounded pool that short requests share: a renewal that queues behind them comes late.
    pub fn is_long_poll(&self) -> bool {
        self.long_poll
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("target", &self.target)
            .field("token", &self.token)
            .field("body_len", &self.body.len())
            .field("timeout", &self.timeout)
            .field("long_poll", &self.long_poll)
            .finish()
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// An answer without headers.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The first header of this name, compared without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All headers, in the order in which they came.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_shows_everything_but_its_token_and_its_body() {
        let request = Request::new(Method::Put, "/v1/kv/a")
            .with_body("secret")
            .with_token(Token::new("hidden-token").ok());
        assert_eq!(
            format!("{request:?}"),
            "Request { method: Put, target: \"/v1/kv/a\", token: Some(Token(hidden)), \
             body_len: 6, timeout: 10s, long_poll: false }"
        );
        let headers: Vec<_> = request.headers().collect();
        assert_eq!(headers, [("X-Consul-Token", "hidden-token")]);
    }

    #[test]
    fn a_body_is_the_same_when_it_is_taken_out() {
        let request = Request::new(Method::Put, "/v1/kv/a").with_body("value");
        assert_eq!(request.body(), b"value");
        assert_eq!(request.into_body(), b"value");
    }

    #[test]
    fn a_response_has_its_headers_in_their_order() {
        let response = Response::new(200, "")
            .with_header("X-Consul-Index", "7")
            .with_header("Vary", "Accept");
        let headers: Vec<_> = response.headers().collect();
        assert_eq!(headers, [("X-Consul-Index", "7"), ("Vary", "Accept")]);
        assert_eq!(response.header("x-consul-index"), Some("7"));
        assert_eq!(response.header("Location"), None);
    }
}
