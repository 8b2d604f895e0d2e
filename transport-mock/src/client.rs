//! One host's way to the Consul in memory: the traits of the core, on virtual time.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::{
    BlockOn, BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError,
};

use crate::network::{Host, Network};
use crate::world::World;

/// A host that talks to the Consul in memory: [`Transport`], [`Runtime`] and [`BlockOn`] in one.
///
/// Made by [`MockConsul::client`](crate::MockConsul::client). Clones are the same host.
#[derive(Clone)]
pub struct MockClient {
    world: Arc<World>,
    host: Host,
}

impl MockClient {
    pub(crate) fn new(world: Arc<World>, host: Host) -> Self {
        Self { world, host }
    }

    /// The name that faults are aimed by.
    pub fn host(&self) -> String {
        self.world
            .with(|network| network.host_name(self.host).to_owned())
    }
}

#[async_trait]
impl Transport for MockClient {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.world.send(self.host, request).await
    }
}

#[async_trait]
impl Runtime for MockClient {
    fn now(&self) -> Instant {
        self.world.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.world.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.world.spawn(future);
    }

    /// From the world's seed: each call gives another number, each run the same ones.
    fn seed(&self) -> u64 {
        self.world.with(Network::draw_seed)
    }
}

impl BlockOn for MockClient {
    /// Runs `future`, and whatever else is to run in this world, on the calling thread.
    ///
    /// # Panics
    /// As [`MockConsul::run`](crate::MockConsul::run).
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.world.block_on(pin!(future));
    }
}

impl fmt::Debug for MockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockClient")
            .field("host", &self.host())
            .finish()
    }
}
