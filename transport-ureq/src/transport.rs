use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_io::Timer;
use async_trait::async_trait;
use semaphore_core::adapter::{
    AgentUrl, BasicAuth, Connections, Instant, Lane, Lanes, Request, Response, TokenProvider,
    Transport, TransportError,
};
use semaphore_core::error::ClosedBy;
use semaphore_core::{BuildError, Scope, Token, TokenSource as _};

use crate::builder::TransportBuilder;
use crate::client::Agents;
use crate::reactor;
use crate::workers::Workers;

/// HTTP(S) to a Consul agent through ureq, on separate threads.
///
/// Clones share threads and connections. The first connected semaphore starts the threads. Building
/// a transport sends nothing. When the last clone is dropped, its threads end.
///
/// - It opens at most [64 connections](semaphore_core::adapter::MOST_CONNECTIONS) to the agent, or
///   as many as [`TransportBuilder::max_connections`] says, however many semaphores share it. Each
///   has a thread. Renewals and releases go first. A long poll that finds no connection is replaced
///   by a read every five seconds. See [`Connections`].
/// - Connections are kept open and reused.
/// - A name may have several addresses. Each new connection resolves the name and tries one address
///   after the other: servers that work first, servers that failed last. A connection is left if
///   its server fails, or can't serve for three seconds, for example because it has no leader. That
///   is done only while another server works better.
/// - Certificate files may be replaced: see `TransportBuilder::ca_cert_file`. If certificates that
///   were accepted are refused, they are tried again for a minute.
/// - Redirects are not followed, and the environment's proxies are not used: an agent is local, and
///   a proxy would see the token.
/// - [`Request::timeout`] covers the whole request, from name resolution to the last byte.
/// - The future of a request can be awaited on any executor.
/// - Dropping that future closes the request's connection at once. A name resolution or a TCP
///   connect in progress can't be interrupted. Its thread ends when it does, at the latest after
///   the [connect timeout](TransportBuilder::connect_timeout).
#[derive(Clone)]
pub struct UreqTransport {
    pub(crate) wire: Arc<Wire>,
    connections: Connections,
    defaults: Scope,
}

/// What requests are sent with.
pub(crate) struct Wire {
    url: Arc<AgentUrl>,
    basic_auth: Option<BasicAuth>,
    tokens: Option<TokenProvider>,
    workers: Workers,
    origin: boot_time::Instant,
    process: u32,
}

impl UreqTransport {
    /// A transport to the agent at `url`, for example `http://127.0.0.1:8500`, with the default
    /// options.
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

    /// The token that a request without a token gets now.
    pub fn token(&self) -> Option<Token> {
        self.wire.tokens.as_ref()?.token()
    }

    pub(crate) fn from_parts(
        url: AgentUrl,
        max_body: usize,
        basic_auth: Option<BasicAuth>,
        tokens: Option<TokenProvider>,
        agents: Agents,
        connections: Connections,
        defaults: Scope,
    ) -> Self {
        let url = Arc::new(url);
        let wire = Wire {
            url: Arc::clone(&url),
            basic_auth,
            tokens,
            workers: Workers::new(url, max_body, agents),
            origin: boot_time::Instant::now(),
            process: std::process::id(),
        };
        Self {
            wire: Arc::new(wire),
            connections,
            defaults,
        }
    }
}

#[async_trait]
impl Transport for UreqTransport {
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

impl Wire {
    /// The threads don't survive a fork.
    pub(crate) fn ended(&self) -> Option<ClosedBy> {
        (std::process::id() != self.process).then_some(ClosedBy::Fork)
    }

    /// Prepares what renewals and releases need, a thread and timers, while the system still has
    /// some.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        reactor::start()?;
        self.workers.prepare(Lane::Short(0))
    }
}

#[async_trait]
impl Lanes for Wire {
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError> {
        let request = request.with_basic_auth(self.basic_auth.clone());
        self.workers.start(lane, request)?.await
    }

    fn close(&self, lane: Lane) {
        self.workers.dismiss(lane);
    }

    fn tokens(&self) -> Option<&TokenProvider> {
        self.tokens.as_ref()
    }

    /// Counts while the machine is suspended, as Consul's clock does.
    fn now(&self) -> Instant {
        Instant::from_origin(boot_time::Instant::now().duration_since(self.origin))
    }

    async fn sleep(&self, duration: Duration) {
        Timer::after(duration).await;
    }
}

impl fmt::Debug for UreqTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UreqTransport")
            .field("url", &self.wire.url)
            .finish_non_exhaustive()
    }
}
