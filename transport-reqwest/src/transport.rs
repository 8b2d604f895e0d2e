use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use semaphore_core::adapter::{Connections, Request, Response, Transport, TransportError};
use semaphore_core::{BuildError, Scope};

use crate::builder::TransportBuilder;
use crate::wire::Wire;

/// HTTP(S) to a Consul agent through reqwest, on tokio.
///
/// Clones share their connections. Nothing is sent until a request is.
///
/// - It opens [64 connections](semaphore_core::adapter::MOST_CONNECTIONS) to the agent at most, or as many as
///   [`TransportBuilder::max_connections`] says, however many semaphores share it. Renewals and releases go first; a
///   long poll that finds no connection is replaced by a read every five seconds. See [`Connections`].
/// - Connections are kept open and reused. With an agent at an `https` address that offers HTTP/2, as Consul does, requests
///   share connections: one carries all requests that are answered at once, each further one 100 long polls, 1,000 in all. A
///   connection that stays silent is left for another one: after a request that has timed out, or when it gives no sign of
///   life for 5 seconds and the connect timeout. `TransportBuilder::http1_only` does without. Other addresses are spoken to by HTTP/1.1.
/// - A name may lead to several servers. A new connection resolves it and tries one address after the other: first those
///   that serve, last those that failed. What is open to one that has failed, or that can't serve for three seconds, as without
///   a leader, is not used again as long as there is a better one.
/// - Files of certificates may be replaced: see `TransportBuilder::ca_cert_file`. Certificates that fitted and do so no longer
///   are tried again for a minute.
/// - A redirect is not followed, and a proxy of the environment not used: an agent is local, and
///   a proxy would see the token.
/// - [`Request::timeout`] covers all of a request, from name resolution to the last byte.
/// - The future of a request can be awaited on any executor, as long as the tokio runtime runs in
///   which the transport was built.
#[derive(Clone)]
pub struct ReqwestTransport {
    pub(crate) wire: Arc<Wire>,
    connections: Connections,
    defaults: Scope,
}

impl ReqwestTransport {
    /// A transport to the agent at `url`, for example `http://127.0.0.1:8500`, with the default
    /// options. It uses the tokio runtime that this is called in.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn new(url: impl AsRef<str>) -> Result<Self, BuildError> {
        Self::builder(url).build()
    }

    /// A transport to the agent at `url` with options.
    ///
    /// `url` is `http://host:port`, `https://host:port` or `host:port`, or `unix:///path` of a socket that the agent listens
    /// on. A path after the port, as of an agent behind a proxy, is put before the path of each request.
    pub fn builder(url: impl AsRef<str>) -> TransportBuilder {
        TransportBuilder::new(url.as_ref().parse().map_err(BuildError::Url))
    }

    /// A transport to the agent that the environment names, see [`TransportBuilder::from_env`].
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn from_env() -> Result<Self, BuildError> {
        TransportBuilder::from_env()?.build()
    }

    pub(crate) fn from_parts(wire: Wire, connections: Connections, defaults: Scope) -> Self {
        Self {
            wire: Arc::new(wire),
            connections,
            defaults,
        }
    }
}

#[async_trait]
impl Transport for ReqwestTransport {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.connections.send(&*self.wire, request).await
    }

    fn defaults(&self) -> Scope {
        self.defaults.clone()
    }

    fn address(&self) -> Option<String> {
        Some(self.wire.url.to_string())
    }
}

impl fmt::Debug for ReqwestTransport {
    /// Shows the address and the limit. reqwest's client would show its default headers, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestTransport")
            .field("url", &self.wire.url)
            .field("max_body", &self.wire.max_body)
            .finish_non_exhaustive()
    }
}
