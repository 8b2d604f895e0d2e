//! A transport that sends the newest token, even with a request that was made with an older one.
//!
//! ```text
//!  request ──▶ with the source's token ──▶ transport ──▶ answer
//!                 ▲                                         │ 403, and the source has another one by now
//!                 └──────────── once more ──────────────────┘
//! ```
//! A request that is refused for its token was not applied, and may be sent again. If an agent
//! refuses the namespace, its answer names the namespace.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::api;
use crate::asked::Asked;
use crate::http::{Request, Response, TOKEN_HEADER};
use crate::token_source::{TokenProvider, TokenSource};
use crate::transport::{Transport, TransportError};

/// The source of a handle's tokens. Without a source, a request keeps its token.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    own: Arc<Mutex<Option<TokenProvider>>>,
    /// The fallback while this has no source.
    others: Option<Box<Tokens>>,
}

impl Tokens {
    pub(crate) fn of(source: Option<TokenProvider>) -> Self {
        Self {
            own: Arc::new(Mutex::new(source)),
            others: None,
        }
    }

    /// With these as the fallback.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            own: self.own,
            others: Some(Box::new(others.clone())),
        }
    }

    /// Replaces the source.
    pub(crate) fn set(&self, source: impl TokenSource + 'static) {
        let source = TokenProvider::new(source);
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// The transport with these tokens.
    pub(crate) fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        let tokens = self.clone();
        Arc::new(Authorized { transport, tokens })
    }

    fn source(&self) -> Option<TokenProvider> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let source = own.clone();
        drop(own);
        source.or_else(|| self.others.as_ref()?.source())
    }
}

struct Authorized {
    transport: Arc<dyn Transport>,
    tokens: Tokens,
}

#[async_trait]
impl Transport for Authorized {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let named = api::Named::in_target(request.target());
        let has_token = request.headers().any(|(name, _)| name == TOKEN_HEADER)
            || self.tokens.source().is_some();
        let asked = Asked::of(request.method().as_str(), request.target(), has_token);
        let answer = self.send_authorized(request).await;
        match answer {
            Ok(answer) => Ok(named.name_in(answer).to(asked)),
            Err(error) => Err(error.of(asked)),
        }
    }

    fn address(&self) -> Option<String> {
        self.transport.address()
    }
}

impl Authorized {
    async fn send_authorized(&self, request: Request) -> Result<Response, TransportError> {
        let Some(source) = self.tokens.source() else {
            return self.transport.send(request).await;
        };
        let used = source.token();
        let sent = request.clone().with_token(used.clone());
        let answer = self.transport.send(sent).await;
        if !answer.as_ref().is_ok_and(api::is_denied) {
            return answer;
        }
        source.refused(used.as_ref());
        let fresh = self.tokens.source().and_then(|it| it.token());
        if fresh == used {
            return answer;
        }
        tracing::debug!(name: "token-changed", "a refused request is sent again with another token");
        self.transport.send(request.with_token(fresh)).await
    }
}
