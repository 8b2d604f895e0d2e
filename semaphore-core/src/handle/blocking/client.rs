//! The blocking client.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Discovery, Election, Semaphore};
use crate::error::{ClosedBy, Error};
use crate::handle::Client as AsyncClient;
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::machine::Status;
use crate::runtime::{BlockOn, BoxFuture, Runtime, Unfinished};
use crate::time::Instant;
use crate::token::Token;
use crate::transport::{Transport, TransportError};

/// The blocking [`Client`](crate::Client).
#[derive(Clone)]
pub struct Client {
    inner: AsyncClient,
    thread: Arc<dyn BlockOn>,
}

impl Client {
    pub(in crate::handle) fn new(inner: AsyncClient, thread: Arc<dyn BlockOn>) -> Self {
        Self { inner, thread }
    }

    /// See [`Client::semaphore`](crate::Client::semaphore).
    ///
    /// # Errors
    /// The same.
    pub fn semaphore(&self, prefix: impl AsRef<str>, limit: u32) -> Result<Semaphore, Error> {
        Semaphore::builder(prefix, limit).connect(self.clone())
    }

    /// See [`Client::election`](crate::Client::election).
    ///
    /// # Errors
    /// The same.
    pub fn election(&self, key: impl AsRef<str>) -> Result<Election, Error> {
        Election::builder(key).connect(self.clone())
    }

    /// See [`Client::discovery`](crate::Client::discovery).
    ///
    /// # Errors
    /// The same.
    pub fn discovery(&self, key: impl AsRef<str>) -> Result<Discovery, Error> {
        Discovery::builder(key).connect(self.clone())
    }

    /// See [`Client::set_token`](crate::Client::set_token).
    pub fn set_token(&self, token: Token) {
        self.inner.set_token(token);
    }

    /// See [`Client::status`](crate::Client::status).
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// Waits for Consul: see [`Client::shutdown`](crate::Client::shutdown).
    pub fn shutdown(&self) {
        self.thread.block_on(Box::pin(self.inner.shutdown()));
    }

    /// See [`Client::shutdown_timeout`](crate::Client::shutdown_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let began_at = self.inner.now();
        let mut is_done = false;
        let shutdown = async {
            self.inner.shutdown().await;
            is_done = true;
        };
        self.thread.block_on_for(timeout, Box::pin(shutdown));
        if is_done {
            self.inner.ensure_nothing_left(began_at)
        } else {
            Err(self.inner.late(timeout))
        }
    }
}

#[async_trait]
impl Transport for Client {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.inner.send(request).await
    }

    fn defaults(&self) -> Scope {
        Transport::defaults(&self.inner)
    }

    fn address(&self) -> Option<String> {
        self.inner.address()
    }

    fn shared(&self) -> Option<&dyn Any> {
        self.inner.shared()
    }
}

#[async_trait]
impl Runtime for Client {
    fn now(&self) -> Instant {
        self.thread.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.thread.sleep(duration).await;
    }

    async fn timer(&self, duration: Duration) {
        self.thread.timer(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.thread.spawn(future)
    }

    fn ended(&self) -> Option<ClosedBy> {
        self.thread.ended()
    }

    fn seed(&self) -> u64 {
        self.thread.seed()
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        self.thread.linger(rest);
    }

    fn finish(&self, rest: Unfinished) {
        self.thread.finish(rest);
    }
}

impl BlockOn for Client {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.thread.block_on(future);
    }

    fn block_on_for(&self, timeout: Duration, future: BoxFuture<'_, ()>) {
        self.thread.block_on_for(timeout, future);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
