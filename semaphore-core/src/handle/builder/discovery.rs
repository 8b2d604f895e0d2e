//! Discoveries are built.

use std::sync::Arc;

use super::{Buildable, Builder};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::presence::Presence;
use crate::handle::{Discovery, blocking};
use crate::input::LockKey;
use crate::runtime::{BlockOn, Runtime};
use crate::transport::Transport;

impl Discovery {
    /// The election on `key`, for example `service/db/leader`. Of the builder's options, the scope and the seed are
    /// a discovery's.
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_discovery(key.as_ref())
    }
}

impl Buildable for Discovery {
    type Subject = LockKey;
}

impl blocking::Discovery {
    /// See [`Discovery::builder`](crate::Discovery::builder). What it connects are handles that block.
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_discovery(key.as_ref())
    }
}

impl Buildable for blocking::Discovery {
    type Subject = LockKey;
}

impl<T: Buildable<Subject = LockKey>> Builder<T> {
    fn for_discovery(key: &str) -> Self {
        Self::of(LockKey::new(key))
    }
}

impl Builder<Discovery> {
    /// Checks everything. Sends nothing, and runs nothing in the background.
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

    /// Like [`Self::connect`], with a transport and a runtime from different hands.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect_parts(
        self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Discovery, Error> {
        let told = self.told?;
        let tokens = Tokens::of(told.tokens);
        let (tokens, transport) = match Presence::of(&*transport) {
            Some(presence) => (
                tokens.or(presence.house().tokens()),
                Arc::clone(presence.house().transport()),
            ),
            None => (tokens, transport),
        };
        Ok(Discovery::new(
            told.subject,
            told.scope.or(transport.defaults()),
            told.seed,
            tokens.over(transport),
            tokens,
            runtime,
        ))
    }

    /// Like [`Self::connect`], for handles that block the calling thread: for options that serve both kinds.
    /// [`blocking::Discovery::builder`] leads to them alone.
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
    /// Checks everything. Sends nothing, and runs nothing in the background.
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
