use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use semaphore_core::adapter::{Connections, Request, Response, Transport, TransportError};
use semaphore_core::{BuildError, Scope};

use crate::builder::TransportBuilder;
use crate::wire::Wire;

/// HTTP(S) to a Consul agent through reqwest, on tokio.
///
/// Clones share their connections. Building a transport sends nothing.
///
/// - It opens at most [64 connections](semaphore_core::adapter::MOST_CONNECTIONS) to the agent, or
///   as many as [`TransportBuilder::max_connections`] says, however many semaphores share it.
///   Renewals and releases go first. A long poll that finds no connection is replaced by a read
///   every five seconds. See [`Connections`].
/// - Connections are kept open and reused. At an `https` address, an agent that offers HTTP/2, as
///   Consul does, needs fewer: all short requests share one connection, and each 100 long polls
///   share another, up to 1,000 polls. A silent connection is replaced: after a request has timed
///   out, or when it gives no sign of life for 5 seconds plus the connect timeout.
///   `TransportBuilder::http1_only` turns HTTP/2 off. All other addresses use HTTP/1.1.
/// - A name may have several addresses. Each new connection resolves the name and tries one address
///   after the other: servers that work first, servers that failed last. A connection is left if
///   its server fails, or can't serve for three seconds, for example because it has no leader. That
///   is done only while another server works better.
/// - Certificate files may be replaced: see `TransportBuilder::ca_cert_file`. If certificates that
///   were accepted are refused, they are tried again for a minute.
/// - Redirects are not followed, and the environment's proxies are not used: an agent is local, and
///   a proxy would see the token.
/// - [`Request::timeout`] covers the whole request, from name resolution to the last byte.
/// - The future of a request can be awaited on any executor, while the tokio runtime that built the
///   transport runs.
#[derive(Clone)]
pub struct ReqwestTransport {
    pub(crate) wire: Arc<Wire>,
    connections: Connections,
    defaults: Scope,
}

impl ReqwestTransport {
    /// A transport to the agent at `url`, for example `http://127.0.0.1:8500`, with the default
    /// options. It uses the tokio runtime of the caller.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn new(url: impl AsRef<str>) -> Result<Self, BuildError> {
        Self::builder(url).build()
    }

    /// A transport to the agent at `url` with options.
    ///
    /// `url` is `http://host:port`, `https://host:port`, `host:port`, or `unix:///path` for a
    /// socket of the agent. A path after the port is put before the path of each request, for an
    /// agent behind a proxy.
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
