//! Why a request failed.

use std::sync::Arc;

use crate::asked::Asked;
use crate::http::Response;
use crate::one_line::Causes;
use crate::subject::Subject;
use crate::transport::TransportError;

/// Why a request failed.
///
/// `Display` shows everything in one line, with the causes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No complete answer arrived. It is retried while there is time, unless the connection is
    /// misconfigured.
    #[error("{} got no answer: {_0}", _0.asked())]
    Transport(#[source] TransportError),
    /// The agent can't serve the request now: no leader, an election, a rate limit, or a proxy
    /// without its backend. It is retried while there is time.
    #[error("Consul can't serve {asked} now: status {status}{}", said(text))]
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's text.
        text: String,
        /// The request.
        asked: Asked,
    },
    /// The answer is not Consul's, for example because a proxy answered. It is retried while there
    /// is time.
    #[error(
        "the answer to {asked} is not Consul's: {what}{}; is the address, with its path, that of a Consul agent?",
        Causes(source.as_deref().map(|it| it as _))
    )]
    Garbled {
        /// What was expected.
        what: &'static str,
        /// The parser's message, if there is one.
        #[source]
        source: Option<Arc<ParseError>>,
        /// The request.
        asked: Asked,
    },
    /// 403: the token lacks a permission or is unknown. Correct the token or its policy.
    #[error(
        "Consul denies {asked}{}; {}",
        said(text),
        missing_permission(text, asked)
    )]
    Denied {
        /// Consul's text.
        text: String,
        /// The request.
        asked: Asked,
    },
    /// The session does not exist, or no longer.
    #[error("the session of {asked} is gone{}", said(text))]
    InvalidSession {
        /// Consul's text.
        text: String,
        /// The request.
        asked: Asked,
    },
    /// Consul refuses the request itself: trying again would not help.
    #[error("Consul rejects {asked}: status {status}{}{}", said(text), what_to_do(*status, text, asked))]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's text.
        text: String,
        /// The request.
        asked: Asked,
    },
    /// The agent does not accept such a key. Releases differ in their rules. With several releases
    /// use letters, digits, `/`, `-`, `_` and `.`.
    #[error(
        "the agent does not accept the key of {asked}{}; all releases accept letters, digits, `/`, `-`, `_` and `.`",
        said(text)
    )]
    InvalidKey {
        /// Consul's text, which names the rule.
        text: String,
        /// The request.
        asked: Asked,
    },
    /// Requests that worked before are refused, for example while a token is rotated, or by a
    /// gateway in front of Consul. They are retried for the time of a lease. After that the error
    /// is the refusal itself.
    #[error("this was served before, and is refused now: {_0}")]
    RefusedForNow(#[source] Box<RequestError>),
    /// A redirect. It is not followed, since that would send the token to another address.
    #[error(
        "the answer to {asked} is a redirect ({status}) to {location:?}, which is not followed; check the agent's address"
    )]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// The target of the redirect.
        location: String,
        /// The request.
        asked: Asked,
    },
}

/// What a parser says about an answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// Give only the beginning of the message: a parser may quote the whole answer, and errors are
    /// kept and logged.
    pub(crate) fn new(beginning: String) -> Self {
        Self(beginning)
    }
}

/// The request of an error, or of the error in it.
macro_rules! asked_of {
    ($error:expr, $asked:ident) => {
        match $error {
            RequestError::Transport(error) => error.$asked(),
            RequestError::RefusedForNow(error) => error.$asked(),
            RequestError::Unavailable { asked, .. }
            | RequestError::Garbled { asked, .. }
            | RequestError::Denied { asked, .. }
            | RequestError::InvalidSession { asked, .. }
            | RequestError::Rejected { asked, .. }
            | RequestError::InvalidKey { asked, .. }
            | RequestError::Redirected { asked, .. } => asked,
        }
    };
}

impl RequestError {
    /// The answer is not Consul's, and no parser says more.
    pub(crate) fn garbled(what: &'static str) -> Self {
        Self::Garbled {
            what,
            source: None,
            asked: Asked::default(),
        }
    }

    /// Adds the request of this answer.
    #[must_use]
    pub(crate) fn of(mut self, response: &Response) -> Self {
        self.asked_mut().clone_from(response.asked());
        self
    }

    /// The request and its subject, as far as they are known.
    pub fn asked(&self) -> &Asked {
        asked_of!(self, asked)
    }

    fn asked_mut(&mut self) -> &mut Asked {
        asked_of!(self, asked_mut)
    }

    /// Adds this subject, unless there is one already.
    #[must_use]
    pub(crate) fn or_about(mut self, subject: &Subject) -> Self {
        let asked = self.asked_mut();
        *asked = core::mem::take(asked).or_about(subject);
        self
    }

    /// Whether trying again is pointless (the second kind of L4).
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

    /// Whether somebody answered, and refused: for now, or for good.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_permanent() || matches!(self, Self::RefusedForNow(_))
    }

    /// Whether a limit was reached: on requests, as with `limits.request_limits` (from 1.15), or on
    /// connections.
    pub(crate) fn is_rate_limit(&self) -> bool {
        match self {
            Self::Unavailable { status: 429, .. } => true,
            Self::Unavailable { status, text, .. } => {
                *status == 503 && text.to_ascii_lowercase().contains(RATE_LIMIT)
            }
            _ => false,
        }
    }

    /// Whether something else answered in Consul's place, with a page, a document or a redirect.
    /// Consul refuses with one line of text. Such an answer says nothing about the request, so a
    /// contender that leaves tries again until it gets Consul's.
    pub(crate) fn is_anothers(&self) -> bool {
        let is_document = |text: &str| text.starts_with(['<', '{']);
        match self {
            Self::Redirected { .. } => true,
            Self::Denied { text, .. } | Self::Rejected { text, .. } => is_document(text),
            Self::RefusedForNow(error) => error.is_anothers(),
            _ => false,
        }
    }

    /// The refusal itself, for a caller that does not wait until it is over.
    pub(crate) fn at_face_value(&self) -> &Self {
        match self {
            Self::RefusedForNow(error) => error,
            error => error,
        }
    }

    /// Whether a failed write certainly had no effect. Otherwise its outcome is unknown.
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

/// A leader's text for a rate limit on writes. It has not looked at the request.
const RATE_LIMIT: &str = "rate limit exceeded";

/// The text of the answer, if there is one.
fn said(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!(": {text}")
}

/// The permission that the token lacks.
fn missing_permission(text: &str, asked: &Asked) -> String {
    if text.to_ascii_lowercase().contains("acl not found") {
        return "Consul does not know the token: it was deleted, or is another cluster's"
            .to_owned();
    }
    if text.contains("Endpoint is blocked") || is_page(text) {
        return not_served(asked);
    }
    if text.contains("Access is restricted") {
        return "the agent takes writes only from some addresses: see `allow_write_http_from` in its configuration"
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

/// What to allow, if the agent or a proxy does not serve this request from anybody.
fn not_served(asked: &Asked) -> String {
    let request = asked.request().unwrap_or_default();
    let path = request.split(' ').next_back().unwrap_or_default();
    format!(
        "{path} must be served: see `http_config.block_endpoints` of the agent, and what stands before it"
    )
}

/// Whether something else has answered in Consul's place: Consul refuses with one line of text.
fn is_page(text: &str) -> bool {
    text.starts_with('<')
}

/// The advice for a refusal that the protocol does not expect.
fn what_to_do(status: u16, text: &str, asked: &Asked) -> String {
    let lower = text.to_ascii_lowercase();
    if lower.contains("http request to an https server") {
        return "; the port speaks TLS: use https://".to_owned();
    }
    let is_transaction = asked
        .request()
        .is_some_and(|request| request.ends_with(" /v1/txn"));
    match status {
        400 | 404 | 405 | 501 if is_transaction => format!("; {}", not_served(asked)),
        404 | 405 => "; is the address, with its path, that of a Consul agent?".to_owned(),
        413 => "; the request is larger than the agent accepts".to_owned(),
        _ => String::new(),
    }
}
