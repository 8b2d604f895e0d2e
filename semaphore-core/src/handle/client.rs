//! What the semaphores and elections of one process share.

use core::any::Any;
use core::fmt;
use core::pin::pin;
use core::time::Duration;
use std::io;

use async_trait::async_trait;
use futures_util::future::{Either, select};

use super::presence::Presence;
use super::{Discovery, Election, Semaphore};
use crate::error::{Awaited, ClosedBy, Error};
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::runtime::{BoxFuture, Runtime, Unfinished};
use crate::time::Instant;
use crate::token::Token;
use crate::transport::{Transport, TransportError};

/// What the semaphores and elections of one process have in common: the agent, its connections, one driver, and the sessions.
///
/// A semaphore that is connected alone makes a session for each slot that it wants, and renews each. The semaphores of a client
/// share sessions: the first slot of each semaphore stands on the first session, the second slot of the same semaphore on the
/// second one. So a thousand semaphores with one held slot each need one session, and one renewal now and then. Elections share
/// sessions, too: a hundred shards that one client leads need one. They are not those of the semaphores, unless
/// [`behavior`](crate::Builder::behavior), lock delay and name are the same, since an election's key stays when its session ends.
///
/// ```
/// use semaphore_core::Client;
/// # use transport_mock::MockConsul;
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
///
/// # world.run(async {
/// let client = Client::builder().value("node-1").connect(transport)?;
/// let first = client.semaphore("service/db/first", 3)?.acquire().await?;
/// let second = client.semaphore("service/db/second", 3)?.acquire().await?;
/// first.release().await?;
/// second.release().await?;
/// client.shutdown().await;
/// # Ok::<(), semaphore_core::Error>(())
/// # })?;
/// # Ok::<(), semaphore_core::Error>(())
/// ```
///
/// # Shared fate
/// All holds on one session end with it, and so do all terms: an administrator who ends it ends all of them at once, with the lock delay
/// for each. Each of them is told so. [`Builder::isolated`](crate::Builder::isolated) gives one semaphore or election separate
/// sessions. What is released or resigned has no lock delay, and ends nothing else. Where an agent refuses transactions each
/// election has a session for itself.
///
/// # Handles
/// Clones share all of it. A semaphore that is asked for twice, with the same options, is one participant, so a handler may ask
/// for it with each request. The client ends when its last handle, and those of its semaphores, are gone.
#[derive(Clone)]
pub struct Client {
    presence: Presence,
}

impl Client {
    pub(super) fn new(presence: Presence) -> Self {
        Self { presence }
    }

    /// The semaphore of `limit` slots under `prefix`, with the client's options. For others use
    /// [`Semaphore::builder`], and connect it to the client.
    ///
    /// # Errors
    /// As the `connect` of [`Builder`](crate::Builder), and [`Error::Closed`] after [`Self::shutdown`].
    pub fn semaphore(&self, prefix: impl AsRef<str>, limit: u32) -> Result<Semaphore, Error> {
        Semaphore::builder(prefix, limit).connect(self.clone())
    }

    /// The election under `key`, with the client's options, on sessions that it shares with the client's other elections. Elections of
    /// one client with the same key and options are one candidate: their campaigns lead in turn, and cost one watch.
    ///
    /// # Errors
    /// As [`Self::semaphore`].
    pub fn election(&self, key: impl AsRef<str>) -> Result<Election, Error> {
        Election::builder(key).connect(self.clone())
    }

    /// Who leads under `key`.
    ///
    /// # Errors
    /// As the `connect` of [`Builder`](crate::Builder).
    pub fn discovery(&self, key: impl AsRef<str>) -> Result<Discovery, Error> {
        Discovery::builder(key).connect(self.clone())
    }

    /// Every request of what is connected to it carries this token from now on, instead of the builder's. A request that is
    /// under way with the old token, and is refused, is sent once more.
    pub fn set_token(&self, token: Token) {
        self.presence.house().tokens().set(token);
    }

    /// Closes all of it, [steps down](Election::step_down) wherever it leads, and waits until every permit is released and nothing of this
    /// client's is left in Consul.
    ///
    /// It does not wait for the owner of a [`Leadership`](crate::Leadership), who is told that the term has ended. A loop of
    /// [`Election::run`] ends. It does wait for the owners of permits.
    ///
    /// # Cancel safety
    /// It stays closed, and the cleaning up goes on in the background.
    pub async fn shutdown(&self) {
        let house = self.presence.house();
        house.shut_down();
        // A driver that has ended leaves nothing to wait for.
        let _ = house.await_quiet().await;
    }
}

impl Client {
    /// Like [`Self::shutdown`], and waits for `timeout` at most, also where a permit was forgotten. The rest goes on in the
    /// background then, as long as the runtime lives.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// As [`Self::shutdown`].
    pub async fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let shutdown = pin!(self.shutdown());
        let timer = self.presence.house().runtime().timer(timeout);
        match select(shutdown, timer).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(Error::late(Awaited::Shutdown, timeout)),
        }
    }
}

/// What is connected to it is its own. A request that a user sends through it uses its connections, and its token.
#[async_trait]
impl Transport for Client {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.presence.house().authorized().send(request).await
    }

    fn defaults(&self) -> Scope {
        self.presence.defaults().scope.clone()
    }

    fn address(&self) -> Option<String> {
        self.presence.house().transport().address()
    }

    fn shared(&self) -> Option<&dyn Any> {
        Some(&self.presence)
    }
}

#[async_trait]
impl Runtime for Client {
    fn now(&self) -> Instant {
        self.presence.house().runtime().now()
    }

    async fn sleep(&self, duration: Duration) {
        self.presence.house().runtime().sleep(duration).await;
    }

    async fn timer(&self, duration: Duration) {
        self.presence.house().runtime().timer(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.presence.house().runtime().spawn(future)
    }

    fn ended(&self) -> Option<ClosedBy> {
        self.presence.house().runtime().ended()
    }

    fn seed(&self) -> u64 {
        self.presence.house().runtime().seed()
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        self.presence.house().runtime().linger(rest);
    }

    fn finish(&self, rest: Unfinished) {
        self.presence.house().runtime().finish(rest);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
