use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use semaphore_core::{AgentUrl, BuildError, Request, Response, Transport, TransportError};

use crate::builder::TransportBuilder;
use crate::client::Agents;
use crate::workers::Workers;

/// HTTP(S) to a Consul agent through ureq, on threads of its own.
///
/// Clones share threads and connections. Nothing is sent, and no thread started, until a request
/// is. When the last clone is dropped, its threads end.
///
/// - Connections are kept open and reused.
/// - A redirect is not followed, and a proxy of the environment not used: an agent is local, and
///   a proxy would see the token.
/// - [`Request::timeout`] covers all of a request, from name resolution to the last byte.
/// - The future of a request can be awaited on any executor.
/// - Dropping that future closes the request's connection at once. A name resolution or a TCP
///   connect in progress can't be interrupted; its thread ends when that does, after the
///   [connect timeout](TransportBuilder::connect_timeout) at the latest.
#[derive(Clone)]
pub struct UreqTransport {
    url: Arc<AgentUrl>,
    workers: Arc<Workers>,
    pub(crate) origin: boot_time::Instant,
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
    /// `url` is `http://host:port`, `https://host:port` or `host:port`. A path in it, as of an
    /// agent behind a proxy, is put before the path of each request.
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

    pub(crate) fn from_parts(url: AgentUrl, max_body: usize, agents: Agents) -> Self {
        let url = Arc::new(url);
        Self {
            url: Arc::clone(&url),
            workers: Arc::new(Workers::new(url, max_body, agents)),
            origin: boot_time::Instant::now(),
        }
    }
}

#[async_trait]
impl Transport for UreqTransport {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.workers.start(request)?.await
    }
}

impl fmt::Debug for UreqTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UreqTransport")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
