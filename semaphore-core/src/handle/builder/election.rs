//! What only an election is told.

use std::sync::Arc;

use super::Builder;
use crate::error::Error;
use crate::handle::{Election, blocking};
use crate::input::LockKey;
use crate::machine::ElectionSettings;
use crate::transport::{BlockOn, Runtime, Transport};

/// What only an election is told.
impl Builder<ElectionSettings> {
    pub(in crate::handle) fn for_election(key: &str) -> Self {
        Self::of(LockKey::new(key).map(ElectionSettings::new))
    }

    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect<B>(self, backend: B) -> Result<Election, Error>
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
    ) -> Result<Election, Error> {
        let parts = self.parts()?;
        let seed = parts.seed.unwrap_or_else(|| runtime.seed());
        let settings = parts
            .settings
            .with_value(parts.value)
            .with_encoding(parts.encoding)
            .with_scope(parts.scope)
            .with_session_options(parts.session_options);
        Election::start(settings, seed, transport, runtime)
    }

    /// Like [`Self::connect`], for handles that block the calling thread.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::Election, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        let backend = Arc::new(backend);
        let election = self.connect_parts(backend.clone(), backend.clone())?;
        Ok(blocking::Election::new(election, backend))
    }
}
