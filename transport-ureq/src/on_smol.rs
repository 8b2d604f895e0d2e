use std::io;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{
    BlockOn, BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError,
};
use semaphore_core::error::ClosedBy;
use semaphore_core::{BuildError, Scope};

use crate::transport::UreqTransport;

/// A [`UreqTransport`] for programs that run on smol. Futures of the handles are awaited there, and
/// timers are smol's.
///
/// Nothing else runs on smol's executor. There, a task that does not yield would delay the
/// renewals, and the executor ends when `main` does. Requests never run on the threads of
/// `smol::unblock`: a renewal could wait there behind long polls, and giving up a request would not
/// stop it.
///
/// ```
/// # fn main() -> Result<(), transport_ureq::BuildError> {
/// use transport_ureq::{SmolTransport, UreqTransport};
///
/// let backend = SmolTransport::new("http://127.0.0.1:8500")?;
/// let with_options = SmolTransport::from(UreqTransport::builder("consul:8500").build()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SmolTransport(UreqTransport);

impl SmolTransport {
    /// A transport to the agent at `url` with the default options, see [`UreqTransport::new`].
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn new(url: impl AsRef<str>) -> Result<Self, BuildError> {
        UreqTransport::new(url).map(Self)
    }

    /// A transport to the agent that the environment names, see
    /// [`TransportBuilder::from_env`](crate::TransportBuilder::from_env).
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn from_env() -> Result<Self, BuildError> {
        UreqTransport::from_env().map(Self)
    }
}

impl From<UreqTransport> for SmolTransport {
    fn from(transport: UreqTransport) -> Self {
        Self(transport)
    }
}

#[async_trait]
impl Transport for SmolTransport {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.0.send(request).await
    }

    fn defaults(&self) -> Scope {
        self.0.defaults()
    }

    fn address(&self) -> Option<String> {
        self.0.address()
    }
}

#[async_trait]
impl Runtime for SmolTransport {
    fn now(&self) -> Instant {
        self.0.now()
    }

    async fn sleep(&self, duration: Duration) {
        smol::Timer::after(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.0.spawn(future)
    }

    fn ended(&self) -> Option<ClosedBy> {
        self.0.ended()
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        self.0.linger(rest);
    }
}

impl BlockOn for SmolTransport {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        smol::block_on(future);
    }
}
