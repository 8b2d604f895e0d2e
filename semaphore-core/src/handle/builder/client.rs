//! What all semaphores and elections of a client are told, and how it is built.

use std::sync::Arc;

use super::{Buildable, Builder, Contends, Contention, Named};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::presence::{Defaults, Presence};
use crate::handle::{Client, blocking};
use crate::machine::Household;
use crate::runtime::{BlockOn, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

/// A client is about nothing in particular.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anything {
    own_polls: Option<usize>,
}

impl<T: Contends<Settings = Anything>> Builder<T> {
    /// Up to `most` semaphores of the client watch their records by separate polls while they only hold. 16, unless it is
    /// told otherwise.
    ///
    /// If there are more, none of them does: the client asks for dozens at once, four times within the TTL of their sessions, so that
    /// it needs few connections and requests. A holder then learns within a quarter of the TTL that it was evicted, and not at once.
    /// Who waits for a slot has a poll in any case.
    pub fn own_polls(self, most: usize) -> Self {
        self.checked(|told| {
            told.subject.settings.own_polls = Some(most);
            Ok(())
        })
    }
}

impl Client {
    /// These options hold for all that is connected to the client, unless that has other ones.
    pub fn builder() -> Builder<Self> {
        Builder::contending(Ok(Anything::default()))
    }
}

impl Named for Contention<Anything> {
    fn named(&self) -> Subject {
        Subject::default()
    }
}

impl Buildable for Client {
    type Subject = Contention<Anything>;
}

impl Contends for Client {
    type Settings = Anything;
}

impl blocking::Client {
    /// See [`Client::builder`](crate::Client::builder). What it connects are handles that block.
    pub fn builder() -> Builder<Self> {
        Builder::contending(Ok(Anything::default()))
    }
}

impl Buildable for blocking::Client {
    type Subject = Contention<Anything>;
}

impl Contends for blocking::Client {
    type Settings = Anything;
}

impl Builder<Client> {
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect<B>(self, backend: B) -> Result<Client, Error>
    where
        B: Transport + Runtime + 'static,
    {
        let backend = Arc::new(backend);
        self.connect_parts(backend.clone(), backend)
    }

    /// Like [`Self::connect`], with a transport and a runtime from different hands.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect_parts(
        self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Client, Error> {
        let told = self.told?;
        let seed = told.seed.unwrap_or_else(|| runtime.seed());
        let mut defaults = told.or(&Defaults::default())?;
        defaults.scope = defaults.scope.or(transport.defaults());
        let tokens = Tokens::of(told.tokens);
        let mut household = Household::new(seed);
        if let Some(most) = told.subject.settings.own_polls {
            household = household.with_own_polls(most);
        }
        let presence = Presence::start(transport, tokens, runtime, household, defaults)?;
        Ok(Client::new(presence))
    }

    /// Like [`Self::connect`], for handles that block the calling thread: for options that serve both kinds.
    /// [`blocking::Client::builder`] leads to them alone.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::Client, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        let backend = Arc::new(backend);
        let client = self.connect_parts(backend.clone(), backend.clone())?;
        Ok(blocking::Client::new(client, backend))
    }
}

impl Builder<blocking::Client> {
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect<B>(self, backend: B) -> Result<blocking::Client, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        self.with_handle::<Client>().connect_blocking(backend)
    }
}
