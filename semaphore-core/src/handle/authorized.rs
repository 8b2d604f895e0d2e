//! A transport that sends the newest token, even with a request that was made with an older one.
//!
//! ```text
//!  request ──▶ with the source's token ──▶ transport ──▶ answer
//!                 ▲                                         │ 403, and the source has another one by now
//!                 └──────────── once more ──────────────────┘
//! ```
//! Without a source, a request has the token of its scope, or else the transport's. If an agent
//! refuses the namespace, its answer names the namespace.

use std::sync::Arc;

use async_trait::async_trait;

use crate::api;
use crate::asked::Asked;
use crate::http::{Request, Response};
use crate::sync::{Mutex, lock};
use crate::token::Token;
use crate::token_source::{TokenProvider, TokenSource, authorized};
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
        *lock(&self.own) = Some(source);
    }

    /// The transport with these tokens.
    pub(crate) fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        let tokens = self.clone();
        Arc::new(Authorized { transport, tokens })
    }

    fn source(&self) -> Option<TokenProvider> {
        let source = lock(&self.own).clone();
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
        let source = self.tokens.source();
        let has_token = source.is_some() || request.has_token();
        let (method, target) = (request.method().as_str(), request.target().to_owned());
        let send = |request| self.transport.send(request);
        let answer = match source {
            Some(_) => authorized(&self.tokens, request, send).await,
            // The transport may have one.
            None => send(request).await,
        };
        match answer {
            Ok(answer) => {
                let has_token = has_token || answer.asked().has_token() == Some(true);
                let asked = Asked::of(method, &target, has_token);
                Ok(named.name_in(answer).to(asked))
            }
            Err(error) => Err(error.of(Asked::of(method, &target, has_token))),
        }
    }

    fn address(&self) -> Option<String> {
        self.transport.address()
    }
}

impl TokenSource for Tokens {
    fn token(&self) -> Option<Token> {
        self.source()?.token()
    }

    fn refused(&self, token: Option<&Token>) {
        if let Some(source) = self.source() {
            source.refused(token);
        }
    }
}
