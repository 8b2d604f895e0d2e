//! The blocking client.

use core::any::Any;
use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;

use super::thread::{blocking, same};
use super::{Discovery, Election, Semaphore};
use crate::error::Error;
use crate::handle::Client as AsyncClient;
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::machine::Status;
use crate::runtime::{BlockOn, BoxFuture, passing_runtime};
use crate::token::Token;
use crate::transport::{Transport, TransportError};

blocking! {
    /// The blocking [`Client`](crate::Client).
    #[derive(Clone)]
    struct Client(AsyncClient)
}

impl Client {
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

    same! {
        /// See [`Client::set_token`](crate::Client::set_token).
        fn set_token(&self, token: Token);

        /// See [`Client::status`](crate::Client::status).
        fn status(&self) -> Status;
    }

    /// Waits for Consul: see [`Client::shutdown`](crate::Client::shutdown).
    pub fn shutdown(&self) {
        self.thread.wait(self.inner.shutdown());
    }

    /// See [`Client::shutdown_timeout`](crate::Client::shutdown_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let (hub, shutdown) = (self.inner.hub(), self.inner.shutdown());
        self.thread.shut_down_for(&**hub, timeout, shutdown)
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

passing_runtime!(impl for Client, |client| client.thread);

impl BlockOn for Client {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.thread.block_on(future);
    }

    fn block_on_for(&self, timeout: Duration, future: BoxFuture<'_, ()>) {
        self.thread.block_on_for(timeout, future);
    }
}
