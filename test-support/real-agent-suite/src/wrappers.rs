//! Adapters with special properties.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{AbortHandle, abortable};
use semaphore_core::Scope;
use semaphore_core::adapter::{
    BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError,
};

/// A transport that reports each request before it sends it.
pub struct Tap<A> {
    inner: A,
    tell: Box<dyn Fn(&Request) + Send + Sync>,
}

impl<A> Tap<A> {
    pub fn new(inner: A, tell: impl Fn(&Request) + Send + Sync + 'static) -> Self {
        let tell = Box::new(tell);
        Self { inner, tell }
    }
}

#[async_trait]
impl<A: Transport> Transport for Tap<A> {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        (self.tell)(&request);
        self.inner.send(request).await
    }

    fn defaults(&self) -> Scope {
        self.inner.defaults()
    }

    fn address(&self) -> Option<String> {
        self.inner.address()
    }
}

/// A runtime that can end its tasks at once, as the end of the process would.
#[derive(Clone)]
pub struct Mortal<R> {
    inner: R,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
}

impl<R> Mortal<R> {
    pub fn new(inner: R) -> Self {
        let tasks = Arc::default();
        Self { inner, tasks }
    }

    /// Drops all tasks.
    pub fn kill(&self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }
}

#[async_trait]
impl<R: Runtime> Runtime for Mortal<R> {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> std::io::Result<()> {
        let (future, handle) = abortable(future);
        self.tasks.lock().unwrap().push(handle);
        self.inner.spawn(Box::pin(async {
            // An aborted task counts as ended.
            let _ = future.await;
        }))
    }

    fn seed(&self) -> u64 {
        self.inner.seed()
    }
}
