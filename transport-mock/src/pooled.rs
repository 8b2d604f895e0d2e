//! A host that keeps its connections open and opens so many at most, as the adapters for a real agent do.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::{
    BlockOn, BoxFuture, BuildError, Connections, Instant, Lane, Lanes, Request, Response, Runtime,
    Transport, TransportError,
};

use crate::client::MockClient;
use crate::network::Pool;

/// A [`MockClient`] whose requests go through [`Connections`]. The agent counts those that are kept open, too: see
/// [`MockConsul::set_max_connections`](crate::MockConsul::set_max_connections).
///
/// Made by [`MockClient::pooled`]. Clones share the connections.
#[derive(Clone)]
pub struct PooledClient {
    wire: Arc<Wire>,
    connections: Connections,
}

struct Wire {
    client: MockClient,
    pool: Pool,
}

impl PooledClient {
    pub(crate) fn new(client: MockClient, pool: Pool, most: usize) -> Result<Self, BuildError> {
        let connections = Connections::new(most, client.seed())?;
        let wire = Arc::new(Wire { client, pool });
        Ok(Self { wire, connections })
    }
}

#[async_trait]
impl Lanes for Wire {
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError> {
        self.client.send_on(self.pool, lane, request).await
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
