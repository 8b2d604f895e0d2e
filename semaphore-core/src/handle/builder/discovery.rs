//! How discoveries are built.

use core::time::Duration;
use std::sync::Arc;

use super::{Buildable, Builder, Named};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::discovery::Following;
use crate::handle::presence::Presence;
use crate::handle::{Discovery, blocking};
use crate::input::LockKey;
use crate::machine::Follow;
use crate::runtime::{BlockOn, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

impl Discovery {
    /// The election on `key`, for example `service/db/leader`. A discovery uses only the options
    /// for the scope, the seed and the [greatest age](Builder::max_age).
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_discovery(key.as_ref())
    }
}

impl Named for Following {
    fn named(&self) -> Subject {
        Subject::of_election(self.key.as_str(), None)
    }
}

impl Buildable for Discovery {
    type Subject = Following;
}

impl blocking::Discovery {
    /// See [`Discovery::builder`](crate::Discovery::builder). It builds blocking handles.
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_discovery(key.as_ref())
    }
}

impl Buildable for blocking::Discovery {
    type Subject = Following;
}

impl<T: Buildable<Subject = Following>> Builder<T> {
    fn for_discovery(key: &str) -> Self {
        let max_age = None;
        let key = LockKey::new(key).map_err(Error::from);
        Self::of(key.map(|key| Following { key, max_age }))
    }

    /// Sets how old the knowledge of a [`Follower`](crate::Follower) may get before it reports that
    /// it is [interrupted](crate::LeaderEvent::Interrupted): 3 s to 10 min, 15 s by default. While
    /// nothing changes, a follower asks each third of this time.
    pub fn max_age(self, max_age: Duration) -> Self {
        self.checked(|told| {
            Follow::check_max_age(max_age)?;
            told.subject.max_age = Some(max_age);
            Ok(())
        })
    }
}

impl Builder<Discovery> {
    /// Checks everything. Sends nothing, and starts no task.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect<B>(self, backend: B) -> Result<Discovery, Error>
    where
        B: Transport + Runtime + 'static,
    {
        let backend = Arc::new(backend);
        self.connect_parts(backend.clone(), backend)
    }

    /// Like [`Self::connect`], with a separate transport and runtime.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect_parts(
        self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Discovery, Error> {
        let told = self.told?;
        let scope = told.scope.or(transport.defaults());
        let Some(presence) = Presence::of(&*transport) else {
            let tokens = Tokens::of(told.tokens);
            let transport = tokens.over(transport);
            let (following, seed) = (told.subject, told.seed);
            return Ok(Discovery::new(
                following, scope, seed, transport, tokens, runtime, None,
            ));
        };
        Ok(presence.discovery(told.subject, scope, told.seed, told.tokens))
    }

    /// Like [`Self::connect`], for blocking handles. It is for code that makes options for both
    /// kinds. [`blocking::Discovery::builder`] makes only blocking handles.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::Discovery, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        let backend = Arc::new(backend);
        let discovery = self.connect_parts(backend.clone(), backend.clone())?;
        Ok(blocking::Discovery::new(discovery, backend))
    }
}

impl Builder<blocking::Discovery> {
    /// Checks everything. Sends nothing, and starts no task.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect<B>(self, backend: B) -> Result<blocking::Discovery, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        self.with_handle::<Discovery>().connect_blocking(backend)
    }
}
