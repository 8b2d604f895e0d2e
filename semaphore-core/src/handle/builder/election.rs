//! How elections are built.

use std::sync::Arc;

use super::{Buildable, Builder, Contends, Contention, Named};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::observer::Company;
use crate::handle::presence::{Defaults, Presence};
use crate::handle::{Election, blocking};
use crate::input::LockKey;
use crate::machine::ElectionSettings;
use crate::runtime::{BlockOn, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

impl Election {
    /// The election for this key, for example `service/db/leader`. All candidates must use the same
    /// key.
    ///
    /// Consider the options [`ttl`](Builder::ttl) and [`lock_delay`](Builder::lock_delay): they
    /// decide how long a crashed leader blocks the election (at most twice the TTL, plus the lock
    /// delay).
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_election(key.as_ref())
    }
}

impl Named for Contention<ElectionSettings> {
    fn named(&self) -> Subject {
        Subject::of_election(self.settings.key().as_str(), None)
    }
}

impl Buildable for Election {
    type Subject = Contention<ElectionSettings>;
}

impl Contends for Election {
    type Settings = ElectionSettings;
}

impl blocking::Election {
    /// See [`Election::builder`](crate::Election::builder). It builds blocking handles.
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_election(key.as_ref())
    }
}

impl Buildable for blocking::Election {
    type Subject = Contention<ElectionSettings>;
}

impl Contends for blocking::Election {
    type Settings = ElectionSettings;
}

impl<T: Contends<Settings = ElectionSettings>> Builder<T> {
    fn for_election(key: &str) -> Self {
        let key = LockKey::new(key).map_err(Error::from);
        Self::contending(key.map(ElectionSettings::new))
    }
}

impl Builder<Election> {
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect<B>(self, backend: B) -> Result<Election, Error>
    where
        B: Transport + Runtime + 'static,
    {
        let backend = Arc::new(backend);
        self.connect_parts(backend.clone(), backend)
    }

    /// Like [`Self::connect`], with a separate transport and runtime.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect_parts(
        self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Election, Error> {
        let told = self.told?;
        let seed = told.seed.unwrap_or_else(|| runtime.seed());
        let presence = Presence::of(&*transport);
        let known = presence.map_or_else(Defaults::default, |it| it.defaults().clone());
        let Defaults {
            scope,
            value,
            session_options,
            farewell,
            observers,
        } = told
            .or(&known)
            .map_err(|input| Error::from(input).or_about(&told.subject.named()))?;
        let Contention {
            settings,
            is_isolated,
            ..
        } = told.subject;
        let settings = settings
            .with_value(value)
            .with_scope(scope.or(transport.defaults()));
        let is_alone = is_isolated;
        // Renewing a shared session needs the client's token.
        let shares = presence.is_some() && !is_alone && told.tokens.is_none();
        let settings = if shares {
            settings.with_shared_sessions(session_options)
        } else {
            settings.with_session_options(session_options)
        };
        let subject = Subject::of_election(settings.key().as_str(), transport.address());
        let company = Company::new(subject, observers, farewell);
        let Some(presence) = presence else {
            let tokens = Tokens::of(told.tokens);
            return Election::start(&settings, seed, transport, tokens, runtime, company);
        };
        let (tokens, kept) = (told.tokens, settings.clone());
        let owner = presence.candidate(settings, seed, tokens, company, is_alone)?;
        Ok(Election::of(owner, &kept))
    }

    /// Like [`Self::connect`], for blocking handles. It is for code that makes options for both
    /// kinds. [`blocking::Election::builder`] makes only blocking handles.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::Election, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        let backend = Arc::new(backend);
        let election = self.connect_parts(backend.clone(), backend.clone())?;
        Ok(blocking::Election::new(election, backend))
    }
}

impl Builder<blocking::Election> {
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect<B>(self, backend: B) -> Result<blocking::Election, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        self.with_handle::<Election>().connect_blocking(backend)
    }
}
