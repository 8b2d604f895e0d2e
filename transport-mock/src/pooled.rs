//! A host that keeps connections open and limits their number, as the adapters for a real agent do.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::BuildError;
use semaphore_core::adapter::{
    BlockOn, BoxFuture, Connections, Instant, Lane, Lanes, Request, Response, Runtime, Transport,
    TransportError,
};

use crate::client::MockClient;
use crate::fault::Fault;
use crate::network::Pool;

/// A [`MockClient`] whose requests go through [`Connections`]. The agent also counts idle open
/// connections: see [`MockConsul::set_max_connections`](crate::MockConsul::set_max_connections).
///
/// [`MockClient::pooled`] makes it. Clones share the connections.
#[derive(Clone)]
pub struct PooledClient {
    wire: Arc<Wire>,
    connections: Connections,
}

struct Wire {
    client: MockClient,
    pool: Pool,
    faults: Option<Faulty>,
}

/// The fault of each request.
pub(crate) type Faulty = Box<dyn Fn(&Request) -> Option<Fault> + Send + Sync>;

impl PooledClient {
    pub(crate) fn new(
        client: MockClient,
        pool: Pool,
        most: usize,
        faults: Option<Faulty>,
    ) -> Result<Self, BuildError> {
        let connections = Connections::new(most, client.seed())?;
        let wire = Arc::new(Wire {
            client,
            pool,
            faults,
        });
        Ok(Self { wire, connections })
    }

    /// The most connections that it has had at once, including those that the agent counts for
    /// blocking queries that were given up.
    pub fn peak_connections(&self) -> usize {
        self.wire.client.peak_of_pool(self.wire.pool)
    }
}

impl Drop for Wire {
    /// Closes its connections.
    fn drop(&mut self) {
        self.client.close_pool(self.pool);
    }
}

#[async_trait]
impl Lanes for Wire {
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError> {
        let fault = self.faults.as_ref().and_then(|faults| faults(&request));
        let (client, pool) = (&self.client, self.pool);
        client.send_on(pool, lane, request, fault).await
    }

    fn close(&self, lane: Lane) {
        self.client.close(self.pool, lane);
    }

    fn now(&self) -> Instant {
        self.client.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.client.sleep(duration).await;
    }
}

#[async_trait]
impl Transport for PooledClient {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.connections.send(&*self.wire, request).await
    }

    fn address(&self) -> Option<String> {
        self.wire.client.address()
    }
}

#[async_trait]
impl Runtime for PooledClient {
    fn now(&self) -> Instant {
        self.wire.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.wire.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.wire.client.spawn(future)
    }

    fn seed(&self) -> u64 {
        self.wire.client.seed()
    }
}

impl BlockOn for PooledClient {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.wire.client.block_on(future);
    }
}

impl fmt::Debug for PooledClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledClient")
            .field("client", &self.wire.client)
            .finish_non_exhaustive()
    }
}
