//! What only a semaphore is told.

use std::sync::Arc;

use super::Builder;
use crate::error::Error;
use crate::handle::{Semaphore, blocking};
use crate::id::SessionId;
use crate::input::{Behavior, Prefix};
use crate::machine::Settings;
use crate::transport::{BlockOn, Runtime, Transport};

/// What only a semaphore is told.
impl Builder<Settings> {
    pub(in crate::handle) fn new(prefix: &str, limit: u32) -> Self {
        let settings = Prefix::new(prefix).and_then(|prefix| Settings::new(prefix, limit));
        Self::of(settings)
    }

    /// Up to how many contenders each participant watches the whole prefix, see [`Settings::with_crowd`].
    pub fn crowd(self, crowd: usize) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_crowd(crowd);
            Ok(())
        })
    }

    /// Takes over another limit that is found in the semaphore's record, instead of failing with
    /// [`Error::LimitConflict`].
    pub fn adopt_limit(self) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_limit_adopted(true);
            Ok(())
        })
    }

    /// What becomes of contender keys whose session is invalidated.
    pub fn behavior(self, behavior: Behavior) -> Self {
        self.session_option(|options| Ok(options.with_behavior(behavior)))
    }

    /// Contends with a session of the caller's own, see [`Settings::with_session`].
    pub fn session(self, session: SessionId) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_session(session);
            Ok(())
        })
    }

    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect<B>(self, backend: B) -> Result<Semaphore, Error>
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
    ) -> Result<Semaphore, Error> {
        let parts = self.parts()?;
        let seed = parts.seed.unwrap_or_else(|| runtime.seed());
        let settings = parts
            .settings
            .with_value(parts.value)
            .with_encoding(parts.encoding)
            .with_scope(parts.scope);
        let settings = if settings.owns_sessions() {
            settings.with_session_options(parts.session_options)
        } else {
            settings
        };
        Semaphore::start(settings, seed, transport, runtime)
    }

    /// Like [`Self::connect`], for handles that block the calling thread.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong.
    pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::Semaphore, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        let backend = Arc::new(backend);
        let semaphore = self.connect_parts(backend.clone(), backend.clone())?;
        Ok(blocking::Semaphore::new(semaphore, backend))
    }
}
