//! Sends requests, and errors below HTTP.

use core::any::Any;
use core::fmt;
use std::error::Error as StdError;
use std::sync::Arc;

use async_trait::async_trait;

use crate::asked::Asked;
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::one_line::Causes;

/// Sends one described request and returns its answer.
///
/// # Contract
/// - An answer of any status is `Ok`: the core judges statuses.
/// - Redirects are not followed, and proxies are used only if the user asked for one. Nothing is
///   sent twice: a request with an unknown outcome ends as [`TransportErrorKind::Unknown`].
/// - [`Request::timeout`] limits the whole exchange.
///
/// # Cancel safety
/// Dropping the future gives the request up and soon frees its connection. It is then unknown
/// whether the server has seen the request.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends `request` and waits for the whole answer.
    ///
    /// # Errors
    /// [`TransportError`] if there is no whole answer. Its kind says what is known about the
    /// request.
    async fn send(&self, request: Request) -> Result<Response, TransportError>;

    /// What requests carry unless a handle sets something else, such as the namespace of the
    /// environment. The default is nothing. A transport around another one should return the inner
    /// one's.
    fn defaults(&self) -> Scope {
        Scope::default()
    }

    /// The agent's address for errors and the log, without a user, a password or a query. The
    /// default is `None`. A transport around another one should return the inner one's.
    fn address(&self) -> Option<String> {
        None
    }

    /// What its users share besides the transport itself, such as a client's state.
    #[doc(hidden)]
    fn shared(&self) -> Option<&dyn Any> {
        None
    }
}

#[async_trait]
impl<T: Transport + ?Sized> Transport for Arc<T> {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        T::send(self, request).await
    }

    fn defaults(&self) -> Scope {
        T::defaults(self)
    }

    fn address(&self) -> Option<String> {
        T::address(self)
    }

    fn shared(&self) -> Option<&dyn Any> {
        T::shared(self)
    }
}

/// What is known about a request without a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// The request was never sent: name resolution failed, the connection was refused, or
    /// certificates that worked before are being replaced. It was not applied, and another try may
    /// help.
    NotSent,
    /// The connection broke after the request may have been sent. It is unknown whether it was
    /// applied.
    Unknown,
    /// There was no connection for the request: the process has no descriptor, port or thread, or
    /// too many requests are under way. It was not applied, and another try may help.
    NoRoom,
    /// [`Request::timeout`] is over. It is unknown whether the request was applied.
    Timeout,
    /// The answer is too large, breaks HTTP, or is cut short. It is unknown whether the request was
    /// applied.
    BadAnswer,
    /// The request can't be sent like this, now or later: a certificate is not trusted, a client
    /// certificate is refused, or the address is invalid. Another try does not help.
    Misconfigured,
}

impl TransportErrorKind {
    /// Whether the request certainly had no effect.
    pub const fn was_not_applied(self) -> bool {
        matches!(self, Self::NotSent | Self::NoRoom | Self::Misconfigured)
    }

    /// Whether trying again is pointless.
    pub const fn is_permanent(self) -> bool {
        matches!(self, Self::Misconfigured)
    }

    /// What to check.
    const fn advice(self) -> Option<&'static str> {
        match self {
            Self::NotSent => Some("is an agent running there, and is the address right?"),
            Self::NoRoom => Some("raise the limit of open files or threads, or send less at once"),
            Self::Misconfigured => Some("check the address and the certificates"),
            Self::Unknown | Self::Timeout | Self::BadAnswer => None,
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::NotSent => "the agent could not be reached",
            Self::Unknown => "the connection to the agent broke",
            Self::NoRoom => "there is no room for one more connection to the agent",
            Self::Timeout => "the agent did not answer in time",
            Self::BadAnswer => "the answer could not be read",
            Self::Misconfigured => "the connection to the agent is misconfigured",
        }
    }
}

/// Why a request got no answer. Its [`source`](StdError::source) is the cause, if there is one.
/// `Display` includes the cause.
#[derive(Clone, Debug)]
pub struct TransportError {
    kind: TransportErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    asked: Asked,
}

impl TransportError {
    /// An error without a further cause.
    pub const fn new(kind: TransportErrorKind) -> Self {
        Self {
            kind,
            source: None,
            asked: Asked::unknown(),
        }
    }

    /// An error with the HTTP client's error as its cause. The cause must not contain the request's
    /// token.
    pub fn with_source(
        kind: TransportErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            kind,
            source: Some(Arc::from(source.into())),
            asked: Asked::default(),
        }
    }

    /// The same error with its request, which the text names. The handles do this.
    #[must_use]
    pub fn answering(self, request: &Request) -> Self {
        self.of(request.asked())
    }

    /// The same error with its request.
    #[must_use]
    pub(crate) fn of(mut self, asked: Asked) -> Self {
        self.asked = asked;
        self
    }

    pub(crate) fn asked_mut(&mut self) -> &mut Asked {
        &mut self.asked
    }

    /// The request, as far as it is known.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// What is known about the request.
    pub const fn kind(&self) -> TransportErrorKind {
        self.kind
    }
}

/// The cause of a [`TransportError`]: the server at an `https://` address does not speak TLS.
#[derive(Debug, thiserror::Error)]
#[error("the server there does not speak TLS: use http:// in the address, or the port for https")]
pub struct NotTls(#[source] Box<dyn StdError + Send + Sync>);

impl NotTls {
    /// With the HTTP client's error.
    pub fn new(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.describe(), Causes(self.source()))?;
        match self.kind.advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl StdError for TransportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_says_something_of_its_own_and_names_its_cause() {
        use TransportErrorKind::{BadAnswer, Misconfigured, NoRoom, NotSent, Timeout, Unknown};
        for (kind, text) in [
            (NotSent, "the agent could not be reached"),
            (Unknown, "the connection to the agent broke"),
            (
                NoRoom,
                "there is no room for one more connection to the agent",
            ),
            (Timeout, "the agent did not answer in time"),
            (BadAnswer, "the answer could not be read"),
            (
                Misconfigured,
                "the connection to the agent is misconfigured",
            ),
        ] {
            let error = TransportError::with_source(kind, "no route to host");
            assert_eq!(error.kind(), kind);
            let begin = format!("{text}: no route to host");
            assert!(error.to_string().starts_with(&begin), "{error}");
            let cause = error.source().map(ToString::to_string);
            assert_eq!(cause.as_deref(), Some("no route to host"));
            assert!(TransportError::new(kind).source().is_none());
        }
    }
}
