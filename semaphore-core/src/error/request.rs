//! Why one request did not do what it was for.

use std::sync::Arc;

use crate::asked::Asked;
use crate::http::Response;
use crate::one_line::Causes;
use crate::subject::Subject;
use crate::transport::TransportError;

/// Why one request did not do what it was for.
///
/// `Display` tells all of it, with the causes, in one line.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No whole answer came. Retried while there is time, unless the connection itself is
    /// misconfigured.
    #[error("{} got no answer: {_0}", _0.asked())]
    Transport(#[source] TransportError),
    /// The agent can't serve the request now: no leader, an election, a rate limit, a proxy
    /// without its backend. Retried while there is time.
    #[error("Consul can't serve {asked} now: status {status}{}", said(text))]
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's text.
        text: String,
        /// What was asked.
        asked: Asked,
    },
    /// The answer is not what Consul sends here, as when a proxy answers in its place. Retried
    /// while there is time.
    #[error(
        "the answer to {asked} is not Consul's: {what}{}; is the address, with its path, that of a Consul agent?",
        Causes(source.as_deref().map(|it| it as _))
    )]
    Garbled {
        /// What was expected.
        what: &'static str,
        /// What the parser says, where it says something.
        #[source]
        source: Option<Arc<ParseError>>,
        /// What was asked.
        asked: Asked,
    },
    /// 403: the token lacks a permission, or is unknown. Correct the token or its policy.
    #[error(
        "Consul denies {asked}{}; {}",
        said(text),
        missing_permission(text, asked)
    )]
    Denied {
        /// Consul's text.
        text: String,
        /// What was asked.
        asked: Asked,
    },
    /// The session does not exist (any more).
    #[error("the session of {asked} is gone{}", said(text))]
    InvalidSession {
        /// Consul's text.
        text: String,
        /// What was asked.
        asked: Asked,
    },
    /// Consul refuses the request as it is: trying again would not help.
    #[error("Consul rejects {asked}: status {status}{}{}", said(text), what_to_do(*status, text))]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's text.
        text: String,
        /// What was asked.
        asked: Asked,
    },
    /// The agent takes no such key. Releases differ in which ones they take: use letters, digits, `/`, `-`, `_` and `.`
    /// where several are in use.
    #[error(
        "the agent takes no such key, asked by {asked}{}; a name of letters, digits, `/`, `-`, `_` and `.` is taken by all releases",
        said(text)
    )]
    InvalidKey {
        /// Consul's text, which says which rule.
        text: String,
        /// What was asked.
        asked: Asked,
    },
    /// What was served before is refused: a token while it is rotated, a gateway in Consul's place. Retried for as
    /// long as a lease lasts, and then told for what it is.
    #[error("what was served before is refused: {_0}")]
    RefusedForNow(#[source] Box<RequestError>),
    /// A redirect. None is followed: it would carry the token to another address.
    #[error(
        "the answer to {asked} is a redirect ({status}) to {location:?}, which is not followed; check the agent's address"
    )]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// Where to.
        location: String,
        /// What was asked.
        asked: Asked,
    },
}

/// What a parser says of an answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// The parser may quote all of the answer, and an error is kept and logged: give the beginning of what it says.
    pub(crate) fn new(beginning: String) -> Self {
        Self(beginning)
    }
}

impl RequestError {
    /// An answer that is not Consul's, of which no parser has more to say.
    pub(crate) fn garbled(what: &'static str) -> Self {
        Self::Garbled {
            what,
            source: None,
            asked: Asked::default(),
        }
    }

    /// The same, of the request that this answers.
    #[must_use]
    pub(crate) fn of(mut self, response: &Response) -> Self {
        if let Self::Garbled { asked, .. } | Self::Denied { asked, .. } = &mut self {
            asked.clone_from(response.asked());
        }
        self
    }

    /// Which request it was, and for whom, as far as is known.
    pub fn asked(&self) -> &Asked {
        match self {
            Self::Transport(error) => error.asked(),
            Self::RefusedForNow(error) => error.asked(),
            Self::Unavailable { asked, .. }
            | Self::Garbled { asked, .. }
            | Self::Denied { asked, .. }
            | Self::InvalidSession { asked, .. }
            | Self::Rejected { asked, .. }
            | Self::InvalidKey { asked, .. }
            | Self::Redirected { asked, .. } => asked,
        }
    }

    /// The same of a request for this one, unless that is known.
    #[must_use]
    pub(crate) fn or_about(mut self, subject: &Subject) -> Self {
        match &mut self {
            Self::Transport(error) => error.or_about(subject),
            Self::RefusedForNow(error) => **error = error.clone().or_about(subject),
            Self::Unavailable { asked, .. }
            | Self::Garbled { asked, .. }
            | Self::Denied { asked, .. }
            | Self::InvalidSession { asked, .. }
            | Self::Rejected { asked, .. }
            | Self::InvalidKey { asked, .. }
            | Self::Redirected { asked, .. } => {
                *asked = core::mem::take(asked).or_about(subject);
            }
        }
        self
    }

    /// Whether trying again is pointless (invariant L4's second class).
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Transport(error) => error.kind().is_permanent(),
            Self::Unavailable { .. } | Self::Garbled { .. } | Self::RefusedForNow(_) => false,
            Self::Denied { .. }
            | Self::InvalidSession { .. }
            | Self::InvalidKey { .. }
            | Self::Rejected { .. }
            | Self::Redirected { .. } => true,
        }
    }

    /// Whether an answer came that the transport did not take, as one that is larger than its limit.
    pub(crate) fn is_unreadable_answer(&self) -> bool {
        matches!(self, Self::Transport(error) if error.kind() == crate::transport::TransportErrorKind::BadAnswer)
    }

    /// Whether it was refused for the number of requests, as an agent with `limits.request_limits` does (from 1.15), or one
    /// with too many connections.
    pub(crate) fn is_rate_limit(&self) -> bool {
        match self {
            Self::Unavailable { status: 429, .. } => true,
            Self::Unavailable { status, text, .. } => {
                *status == 503 && text.to_ascii_lowercase().contains(RATE_LIMIT)
            }
            _ => false,
        }
    }

    /// Whether something else has answered in Consul's place: a page, a document, a redirect. Consul refuses in a line of
    /// text. It is no verdict on what was asked, and a contender that leaves goes on until there is one.
    pub(crate) fn is_anothers(&self) -> bool {
        let is_document = |text: &str| text.starts_with(['<', '{']);
        match self {
            Self::Redirected { .. } => true,
            Self::Denied { text, .. } | Self::Rejected { text, .. } => is_document(text),
            Self::RefusedForNow(error) => error.is_anothers(),
            _ => false,
        }
    }

    /// The refusal itself, for a caller that does not wait until it has passed.
    pub(crate) fn at_face_value(&self) -> &Self {
        match self {
            Self::RefusedForNow(error) => error,
            error => error,
        }
    }

    /// Whether a write that ended so certainly had no effect. Otherwise its outcome is unknown.
    pub fn was_not_applied(&self) -> bool {
        match self {
            Self::Transport(error) => error.kind().was_not_applied(),
            Self::Unavailable { .. } => self.is_rate_limit(),
            Self::RefusedForNow(error) => error.was_not_applied(),
            Self::Garbled { .. } => false,
            Self::Denied { .. }
            | Self::InvalidSession { .. }
            | Self::InvalidKey { .. }
            | Self::Rejected { .. }
            | Self::Redirected { .. } => true,
        }
    }
}

/// How a leader says that it has had enough writes. It has not looked at the request.
const RATE_LIMIT: &str = "rate limit exceeded";

/// What the answer says, where it says something.
fn said(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!(": {text}")
}

/// What a token lacks.
fn missing_permission(text: &str, asked: &Asked) -> String {
    if text.to_ascii_lowercase().contains("acl not found") {
        return "Consul does not know the token: it was deleted, or is another cluster's"
            .to_owned();
    }
    let whose = match asked.has_token() {
        Some(false) => "no token was given, and without one",
        _ => "the token",
    };
    match asked.permission() {
        Some(permission) => format!("{whose} lacks the permission: {permission}"),
        None => format!("{whose} lacks a permission"),
    }
}

/// What to do about a refusal that is not the protocol's.
fn what_to_do(status: u16, text: &str) -> &'static str {
    let text = text.to_ascii_lowercase();
    if text.contains("http request to an https server") {
        return "; the port speaks TLS: use https://";
    }
    match status {
        404 | 405 => "; is the address, with its path, that of a Consul agent?",
        413 => "; the request is larger than the agent takes",
        _ => "",
    }
}
