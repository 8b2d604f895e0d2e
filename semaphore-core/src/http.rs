//! Requests to Consul and its answers, without an HTTP library.

use core::fmt;
use core::time::Duration;

use crate::asked::Asked;
use crate::basic_auth::BasicAuth;
use crate::input::{go_duration, parse_go_duration};
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

/// Which waiting request gets a connection first: the lesser one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// What keeps a hold: a session's renewal, and its confirmation.
    Renewal,
    /// What frees a slot.
    Urgent,
    /// Every other write, and each read that a write waits for.
    Write,
    /// A read that is answered at once.
    Read,
    /// A blocking query.
    Poll {
        /// How many waiters are ahead of the reader; [`u32::MAX`] if nobody waits for the answer.
        ahead: u32,
    },
}

/// One HTTP request to a Consul agent: everything but the agent's address.
///
/// `Debug` never shows the token or a password, and shows only the length of the body.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    method: Method,
    target: String,
    token: Option<Token>,
    basic_auth: Option<BasicAuth>,
    body: Vec<u8>,
    timeout: Duration,
    long_poll: bool,
    priority: Priority,
    changes: Vec<String>,
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
            basic_auth: None,
            body: Vec::new(),
            timeout: Duration::from_secs(10),
            long_poll: false,
            priority: match method {
                Method::Get => Priority::Read,
                Method::Put | Method::Delete => Priority::Write,
            },
            changes: Vec::new(),
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

    /// The same request with this user and password, sent as `Authorization` beside the token.
    #[must_use]
    pub fn with_basic_auth(mut self, basic_auth: Option<BasicAuth>) -> Self {
        self.basic_auth = basic_auth;
        self
    }

    /// The same request, given up after `timeout`.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same request, marked as a blocking query that the server may hold open for a long time.
    #[must_use]
    pub fn as_long_poll(mut self) -> Self {
        self.long_poll = true;
        self.priority = Priority::Poll { ahead: 0 };
        self
    }

    /// The same request with another priority.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// The same request, with the paths of keys that it changes, such as `/v1/kv/service/db/.lock`.
    /// The path of the request itself need not be given.
    #[must_use]
    pub(crate) fn with_changes(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        self.changes = paths.into_iter().collect();
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

    /// How long the server may hold a blocking query open, if this is one.
    pub fn wait(&self) -> Option<Duration> {
        parse_go_duration(self.parameter("wait")?)
    }

    /// How long the server may really hold it open: it adds up to a sixteenth to the
    /// [wait](Self::wait) (Consul's documentation of blocking queries).
    pub fn longest_wait(&self) -> Option<Duration> {
        self.wait().map(longest_wait)
    }

    /// The same blocking query, not given up while the server may hold it open.
    pub(crate) fn outlasting_its_wait(self) -> Self {
        let timeout = self.timeout;
        self.answered_within(timeout)
    }

    /// The answer is expected within this time, plus the time for which the server may hold the
    /// request open.
    pub(crate) fn answered_within(self, timeout: Duration) -> Self {
        let held_open = self.longest_wait().unwrap_or_default();
        self.with_timeout(held_open + timeout)
    }

    /// The same blocking query, held open for another time.
    pub(crate) fn lasting(mut self, wait: Duration) -> Self {
        if let Some(before) = self.wait() {
            let wait = wait.max(SHORTEST_WAIT);
            self.replace_parameter("wait", &go_duration(wait));
            let rest = self.timeout.checked_sub(longest_wait(before));
            // If the timeout is shorter than the wait, it is kept for the answer alone.
            let rest = rest.unwrap_or(self.timeout);
            self.timeout = rest + longest_wait(wait);
        }
        self
    }

    /// A request with the same question that is answered at once. `None` unless the query says how
    /// long it waits, and on which index.
    pub(crate) fn slice(&self) -> Option<Self> {
        self.parameter("index")?;
        self.wait()?;
        let mut slice = self.clone().lasting(SHORTEST_WAIT);
        slice.long_poll = false;
        // Behind all reads it would never come while a program reads all the time.
        slice.priority = Priority::Read;
        Some(slice)
    }

    /// The part that errors show.
    pub(crate) fn asked(&self) -> Asked {
        Asked::of(self.method().as_str(), self.target(), self.has_token())
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The target without its query.
    pub(crate) fn path(&self) -> &str {
        let end = self.target.find('?').unwrap_or(self.target.len());
        &self.target[..end]
    }

    /// A parameter of the target's query, still encoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        let mut parameters = query.split('&').filter_map(|it| it.split_once('='));
        parameters.find(|it| it.0 == name).map(|it| it.1)
    }

    /// Replaces the value of an existing parameter.
    pub(crate) fn replace_parameter(&mut self, name: &str, value: &str) {
        if let Some((path, query)) = self.target.split_once('?') {
            let replaced = |it: &str| match it.split_once('=') {
                Some((found, _)) if found == name => format!("{name}={value}"),
                _ => it.to_owned(),
            };
            let query: Vec<_> = query.split('&').map(replaced).collect();
            self.target = format!("{path}?{}", query.join("&"));
        }
    }

    /// The paths of the keys that it may change.
    pub(crate) fn changed_paths(&self) -> impl Iterator<Item = &str> {
        let own = (self.method != Method::Get).then(|| self.path());
        own.into_iter()
            .chain(self.changes.iter().map(String::as_str))
    }

    /// The headers to send besides those that HTTP requires. Their values are secrets.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let token = self.token.iter().map(Token::reveal);
        let basic_auth = self.basic_auth.iter().map(BasicAuth::reveal_header);
        let token = token.map(|token| (TOKEN_HEADER, token));
        token.chain(basic_auth.map(|header| ("Authorization", header)))
    }

    /// The body. Send it with a `Content-Length`, even if it is empty: Consul ignores a chunked
    /// body when it creates a session.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, without a copy.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// The longest time from the start of the request to the last byte of its answer. The transport
    /// ends it then with
    /// [`TransportErrorKind::Timeout`](crate::adapter::TransportErrorKind::Timeout).
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the server may hold this request open for many seconds. Never send these through a
    /// limited pool that short requests share: a renewal behind them would be late.
    /// [`Connections`](crate::adapter::Connections) handles this.
    pub fn is_long_poll(&self) -> bool {
        self.long_poll
    }

    /// Which waiting request gets a connection first.
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

/// The header of the ACL token.
pub(crate) const TOKEN_HEADER: &str = "X-Consul-Token";

/// The server's wait for a query that should be answered at once. Zero would mean its default.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("target", &self.target)
            .field("token", &self.token)
            .field("basic_auth", &self.basic_auth)
            .field("body_len", &self.body.len())
            .field("timeout", &self.timeout)
            .field("long_poll", &self.long_poll)
            .field("priority", &self.priority)
            .field("changes", &self.changes)
            .finish()
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The request, if the sender has set it.
    asked: Asked,
}

impl Response {
    /// An answer without headers.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            asked: Asked::default(),
        }
    }

    /// The same answer with its request, which errors then name. The handles do this.
    #[must_use]
    pub fn answering(self, request: &Request) -> Self {
        self.to(request.asked())
    }

    /// The same answer with its request.
    #[must_use]
    pub(crate) fn to(mut self, asked: Asked) -> Self {
        self.asked = asked;
        self
    }

    /// The request, as far as it is known.
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
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

    /// All headers, in their order.
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

/// [`Request::longest_wait`] of a blocking query with this wait.
pub(crate) fn longest_wait(wait: Duration) -> Duration {
    wait + wait / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_hold_a_poll_a_sixteenth_longer() {
        let poll = Request::new(Method::Get, "/v1/kv/a?index=7&wait=16s");
        assert_eq!(poll.longest_wait(), Some(Duration::from_secs(17)));
        let read = Request::new(Method::Get, "/v1/kv/a");
        assert_eq!(read.longest_wait(), None);
    }

    #[test]
    fn a_request_shows_everything_but_its_token_and_its_body() {
        let request = Request::new(Method::Put, "/v1/kv/a")
            .with_body("secret")
            .with_token(Token::new("hidden-token").ok())
            .with_basic_auth(BasicAuth::new("user", "hidden-password").ok());
        assert_eq!(
            format!("{request:?}"),
            "Request { method: Put, target: \"/v1/kv/a\", token: Some(Token(hidden)), \
             basic_auth: Some(BasicAuth(hidden)), body_len: 6, timeout: 10s, long_poll: false, priority: Write, changes: [] }"
        );
        let headers: Vec<_> = request.headers().collect();
        let encoded = "Basic dXNlcjpoaWRkZW4tcGFzc3dvcmQ=";
        let expected = [
            ("X-Consul-Token", "hidden-token"),
            ("Authorization", encoded),
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn a_slice_of_a_poll_asks_the_same_and_is_answered_at_once() {
        let poll = Request::new(Method::Get, "/v1/kv/a/?recurse&index=7&wait=16s&dc=b");
        let poll = poll.with_timeout(Duration::from_secs(20)).as_long_poll();
        let slice = poll.slice().unwrap();
        let target = "/v1/kv/a/?recurse&index=7&wait=1000000ns&dc=b";
        assert_eq!(slice.target(), target);
        assert!(!slice.is_long_poll());
        assert_eq!(slice.priority(), Priority::Read);
        // The server had 17 s of the 20.
        assert!(slice.timeout() > Duration::from_secs(3));
        assert!(slice.timeout() < Duration::from_secs(4));
        let hasty = poll.with_timeout(Duration::from_secs(10));
        assert!(hasty.slice().unwrap().timeout() > Duration::from_secs(9));
        for whole in ["/v1/kv/a?index=7", "/v1/kv/a?wait=5s", "/v1/kv/a"] {
            let poll = Request::new(Method::Get, whole).as_long_poll();
            assert!(poll.slice().is_none(), "{whole}");
        }
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
