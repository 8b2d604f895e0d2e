//! Which Consul a program talks to.

use std::env;
use std::sync::Arc;

use semaphore_core::adapter::{AgentEnvironment, AgentUrl, TokenProvider};
use semaphore_core::{BuildError, Token, TokenSource as _};
use transport_mock::LoopbackConsul;
use transport_reqwest::ReqwestTransport;
use transport_ureq::UreqTransport;

use crate::failure::Failure;

/// The agent that `CONSUL_HTTP_ADDR` names, or a Consul in memory when it names none. The one in
/// memory lives as long as this value.
#[derive(Debug)]
pub struct Agent {
    url: AgentUrl,
    tokens: Option<TokenProvider>,
    in_memory: Option<Arc<LoopbackConsul>>,
}

impl Agent {
    /// Looks into the environment; starts a Consul in memory if there is no address in it.
    ///
    /// # Errors
    /// [`Failure::Environment`] for an address or a token that can't be used,
    /// [`Failure::InMemory`] when the system has no port to give.
    pub fn find() -> Result<Self, Failure> {
        let is_named = env::var_os("CONSUL_HTTP_ADDR").is_some_and(|addr| !addr.is_empty());
        if is_named {
            let found = AgentEnvironment::read(|name| env::var(name).ok())
                .map_err(|error| Failure::Environment(error.into()))?;
            let tokens = transport_reqwest::token_source_from_env()
                .map_err(|error| Failure::Environment(error.into()))?;
            return Ok(Self {
                url: found.url,
                tokens,
                in_memory: None,
            });
        }
        let consul = LoopbackConsul::start().map_err(Failure::InMemory)?;
        Ok(Self {
            url: consul
                .url()
                .parse()
                .map_err(|error| Failure::Environment(Box::new(error)))?,
            tokens: None,
            in_memory: Some(Arc::new(consul)),
        })
    }

    /// Where it listens.
    pub fn url(&self) -> &AgentUrl {
        &self.url
    }

    /// A transport to it on tokio, with all that the environment says.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn reqwest(&self) -> Result<ReqwestTransport, BuildError> {
        if self.is_in_memory() {
            ReqwestTransport::new(self.url.to_string())
        } else {
            ReqwestTransport::from_env()
        }
    }

    /// The same on threads.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn ureq(&self) -> Result<UreqTransport, BuildError> {
        if self.is_in_memory() {
            UreqTransport::new(self.url.to_string())
        } else {
            UreqTransport::from_env()
        }
    }

    /// The ACL token of the environment as it is now, if there is one.
    pub fn token(&self) -> Option<Token> {
        self.tokens.as_ref()?.token()
    }

    /// Where the ACL token of the environment comes from, if there is one.
    pub fn tokens(&self) -> Option<TokenProvider> {
        self.tokens.clone()
    }

    /// Whether this program started it.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory.is_some()
    }

    /// The Consul that this program started, if it did.
    pub fn in_memory(&self) -> Option<&Arc<LoopbackConsul>> {
        self.in_memory.as_ref()
    }

    /// It, for a person.
    pub fn describe(&self) -> String {
        if self.is_in_memory() {
            "a Consul in memory".to_owned()
        } else {
            format!("the agent at {}", self.url)
        }
    }
}
