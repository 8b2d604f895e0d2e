//! The runtime of a process that may fork.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{
    BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError,
};
use semaphore_core::error::ClosedBy;
use transport_mock::MockClient;

/// Every copy of this is in the parent until it is told to be in the child.
#[derive(Clone)]
pub(crate) struct Forking {
    client: MockClient,
    is_child: Arc<AtomicBool>,
}

impl Forking {
    pub(crate) fn new(client: MockClient) -> Self {
        let is_child = Arc::default();
        Self { client, is_child }
    }

    /// From now on, this is the child.
    pub(crate) fn fork(&self) {
        self.is_child.store(true, Ordering::SeqCst);
    }

    /// From now on, this is the parent again.
    pub(crate) fn be_the_parent(&self) {
        self.is_child.store(false, Ordering::SeqCst);
    }
}

#[async_trait]
impl Transport for Forking {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.client.send(request).await
    }

    fn address(&self) -> Option<String> {
        self.client.address()
    }
}

#[async_trait]
impl Runtime for Forking {
    fn now(&self) -> Instant {
        self.client.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.client.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.client.spawn(future)
    }

    fn ended(&self) -> Option<ClosedBy> {
        let is_child = self.is_child.load(Ordering::SeqCst);
        is_child.then_some(ClosedBy::Fork)
    }

    fn seed(&self) -> u64 {
        self.client.seed()
    }
}
