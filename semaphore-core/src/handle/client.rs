//! What the semaphores and elections of one process share.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;

use super::hub::Hub;
use super::owner::Ending as _;
use super::presence::Presence;
use super::{Discovery, Election, Semaphore};
use crate::error::Error;
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::machine::Status;
use crate::runtime::passing_runtime;
use crate::token::Token;
use crate::transport::{Transport, TransportError};

/// What the semaphores and elections of one process share: the agent, its connections, one driver,
/// and the sessions.
///
/// A semaphore that is connected alone makes a session for each slot and renews each. The
/// semaphores of a client share sessions: the first slot of each semaphore uses the first session,
/// and the second slot of a semaphore uses the second. So a thousand semaphores with one held slot
/// each need one session and its renewals. Elections share sessions, too: a hundred shards that one
/// client leads need one. They share none with semaphores: an election's key stays when its session
/// ends, and a semaphore's contender keys go with it.
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
/// All holds and terms on one session end with it. An administrator who ends the session ends all
/// of them at once, each with its lock delay, and each holder is told.
/// [`Builder::isolated`](crate::Builder::isolated) gives one semaphore or election separate
/// sessions. Releasing or resigning causes no lock delay and ends nothing else. If an agent refuses
/// transactions, each election has its own session.
///
/// # Handles
/// Clones share everything. If a semaphore is requested twice with the same options, both are one
/// participant, so a handler may request it each time. The client ends when its last handle and the
/// handles of its semaphores are gone.
#[derive(Clone)]
pub struct Client {
    presence: Presence,
}

impl Client {
    pub(super) fn new(presence: Presence) -> Self {
        Self { presence }
    }

    /// The semaphore of `limit` slots under `prefix`, with the client's options. For other options
    /// use [`Semaphore::builder`], and connect it to the client.
    ///
    /// # Errors
    /// As the `connect` of [`Builder`](crate::Builder), and [`Error::Closed`] after [`Self::shutdown`].
    pub fn semaphore(&self, prefix: impl AsRef<str>, limit: u32) -> Result<Semaphore, Error> {
        Semaphore::builder(prefix, limit).connect(self.clone())
    }

    /// The election under `key`, with the client's options, on sessions that the client's elections
    /// share. Elections of one client with the same key and options are one candidate: their
    /// campaigns lead in turn, and they share one watch.
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

    /// Sets the token of every request of the client and everything that is connected to it,
    /// instead of the builder's token. If a request under way is refused with the old token, it is
    /// sent once more.
    pub fn set_token(&self, token: Token) {
        self.hub().tokens().set(token);
    }

    /// The state of all semaphores and elections of the client together: how much is held, how many
    /// wait, and whether Consul answers. It sends nothing.
    pub fn status(&self) -> Status {
        self.hub().status()
    }

    /// Closes everything, [steps down](Election::step_down) from each lead, and waits for Consul until
    /// every permit is released and nothing of this client is left there.
    ///
    /// It does not wait for the owner of a [`Leadership`](crate::Leadership), who is told that the
    /// term has ended. A loop of [`Election::run`] ends. It does wait for the owners of permits.
    ///
    /// # Cancel safety
    /// It stays closed, and cleaning up continues in the background.
    pub async fn shutdown(&self) {
        let hub = self.hub();
        hub.shut_down();
        // If the driver has ended, there is nothing to wait for.
        let _ = hub.await_quiet().await;
    }

    /// Like [`Self::shutdown`], but waits for Consul for at most `timeout`, even if a permit was forgotten. The
    /// rest then continues in the background, while the runtime lives.
    ///
    /// # Errors
    /// [`Error::Timeout`], also sooner if something could not be given back.
    ///
    /// # Cancel safety
    /// As [`Self::shutdown`].
    pub async fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let hub = self.hub();
        hub.shut_down_within(timeout, self.shutdown()).await
    }

    /// Where everything of it lives.
    pub(super) fn hub(&self) -> &Arc<Hub> {
        self.presence.hub()
    }
}

/// Requests of connected handles have their own tokens. A request that a user sends through the
/// client uses its connections and its token.
#[async_trait]
impl Transport for Client {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.hub().authorized().send(request).await
    }

    fn defaults(&self) -> Scope {
        self.presence.defaults().scope.clone()
    }

    fn address(&self) -> Option<String> {
        self.hub().transport().address()
    }

    fn shared(&self) -> Option<&dyn Any> {
        Some(&self.presence)
    }
}

passing_runtime!(impl for Client, |client| client.hub().runtime());

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
