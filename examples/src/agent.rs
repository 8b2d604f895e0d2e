//! Which Consul a program talks to.

use std::env;
use std::sync::Arc;

use semaphore_core::adapter::{AgentEnvironment, AgentUrl, TokenProvider};
use semaphore_core::{BuildError, Token, TokenSource as _};
use transport_mock::LoopbackConsul;
use transport_reqwest::ReqwestTransport;
use transport_ureq::UreqTransport;

use crate::failure::Failure;

/// The agent in `CONSUL_HTTP_ADDR`, or else a Consul in memory, which runs as long as this value
/// exists.
#[derive(Debug)]
pub struct Agent {
    url: AgentUrl,
    tokens: Option<TokenProvider>,
    in_memory: Option<Arc<LoopbackConsul>>,
}

impl Agent {
    /// Reads the environment. Starts a Consul in memory if it has no address.
    ///
    /// # Errors
    /// [`Failure::Environment`] for an address or a token that can't be used, [`Failure::InMemory`]
    /// if the system has no port to give.
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

    /// Its address.
    pub fn url(&self) -> &AgentUrl {
        &self.url
    }

    /// A transport to it on tokio, with the settings of the environment.
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

    /// The present ACL token of the environment, if there is one. The transports send it by
    /// themselves.
    pub fn token(&self) -> Option<Token> {
        self.tokens.as_ref()?.token()
    }

    /// Whether this program started it.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory.is_some()
    }

    /// The Consul that this program started, if it did.
    pub fn in_memory(&self) -> Option<&Arc<LoopbackConsul>> {
        self.in_memory.as_ref()
    }

    /// A description for people.
    pub fn describe(&self) -> String {
        if self.is_in_memory() {
            "a Consul in memory".to_owned()
        } else {
            format!("the agent at {}", self.url)
        }
    }
}
