//! The options of only a semaphore, and how it is built.

use std::sync::Arc;

use super::{Buildable, Builder, Contends, Contention, Named};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::observer::Company;
use crate::handle::presence::{Defaults, Presence};
use crate::handle::{Semaphore, blocking};
use crate::input::Prefix;
use crate::machine::Settings;
use crate::runtime::{BlockOn, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

impl Semaphore {
    /// A semaphore of `limit` slots under `prefix`, for example `service/db`. All who share it must
    /// use the same limit and prefix.
    pub fn builder(prefix: impl AsRef<str>, limit: u32) -> Builder<Self> {
        Builder::for_semaphore(prefix.as_ref(), limit)
    }
}

impl Named for Contention<Settings> {
    fn named(&self) -> Subject {
        named(self.settings.prefix(), self.settings.limit())
    }
}

fn named(prefix: &Prefix, limit: u32) -> Subject {
    Subject::of_semaphore(prefix.as_str(), limit, None)
}

impl Buildable for Semaphore {
    type Subject = Contention<Settings>;
}

impl Contends for Semaphore {
    type Settings = Settings;
}

impl blocking::Semaphore {
    /// See [`Semaphore::builder`](crate::Semaphore::builder). It builds blocking handles.
    pub fn builder(prefix: impl AsRef<str>, limit: u32) -> Builder<Self> {
        Builder::for_semaphore(prefix.as_ref(), limit)
    }
}

impl Buildable for blocking::Semaphore {
    type Subject = Contention<Settings>;
}

impl Contends for blocking::Semaphore {
    type Settings = Settings;
}

/// Options of only a semaphore.
impl<T: Contends<Settings = Settings>> Builder<T> {
    fn for_semaphore(prefix: &str, limit: u32) -> Self {
        let settings = Prefix::new(prefix).map_err(Error::from);
        Self::contending(settings.and_then(|prefix| {
            let subject = named(&prefix, limit);
            let settings = Settings::new(prefix, limit);
            settings.map_err(|input| Error::from(input).or_about(&subject))
        }))
    }

    /// Sets up to how many contenders each participant watches the whole prefix, see
    /// [`Settings::with_crowd`].
    pub fn crowd(self, crowd: usize) -> Self {
        self.setting(|settings| settings.with_crowd(crowd))
    }

    /// Adopts another limit from the semaphore's record instead of failing with
    /// [`Error::LimitConflict`].
    pub fn adopt_limit(self) -> Self {
        self.setting(|settings| settings.with_limit_adopted(true))
    }

    /// Writes this limit into a record with another limit, if nobody holds a slot or came before.
    /// The same write admits this contender. It waits for the slots of dead holders. If somebody
    /// holds, the other limit is [`Error::LimitConflict`]; with [`Self::adopt_limit`] it is adopted
    /// until an acquisition finds nobody.
    ///
    /// Use it with `adopt_limit` to change the limit in a rolling deploy: docs/RUNNING.md has the
    /// details. If old and new instances both use it, the limit changes back and forth while both
    /// run.
    pub fn resize_if_idle(self) -> Self {
        self.setting(|settings| settings.with_limit_replaced_if_idle(true))
    }

    /// For work that takes time to stop. If a slot is lost because its session has ended, the slot
    /// stays taken until its permit is given back or dropped, or until the lock delay is over.
    /// Without this option others may have the slot as soon as this process notices the loss. It
    /// makes no difference if somebody removes the session from the record.
    pub fn keep_lost(self) -> Self {
        self.setting(|settings| settings.with_lost_kept(true))
    }

    fn setting(self, change: impl FnOnce(Settings) -> Settings) -> Self {
        self.checked(|told| {
            let settings = &mut told.subject.settings;
            *settings = change(settings.clone());
            Ok(())
        })
    }
}

impl Builder<Semaphore> {
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect<B>(self, backend: B) -> Result<Semaphore, Error>
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
    ) -> Result<Semaphore, Error> {
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
        let has_tokens = told.tokens.is_some();
        let Contention {
            settings,
            is_isolated,
            ..
        } = told.subject;
        let settings = settings
            .with_value(value.of_contender()?)
            .with_scope(scope.or(transport.defaults()));
        // Renewing a shared session needs the client's token.
        let is_alone = is_isolated;
        let shares = presence.is_some() && !is_alone && !has_tokens;
        let settings = if shares {
            settings.with_shared_sessions(session_options)
        } else {
            settings.with_session_options(session_options)
        };
        let tokens = Tokens::of(told.tokens);
        let subject = Subject::of_semaphore(
            settings.prefix().as_str(),
            settings.limit(),
            transport.address(),
        );
        let company = Company::new(subject, observers, farewell);
        match presence {
            Some(presence) => Semaphore::join(presence, settings, seed, tokens, company),
            None => Semaphore::start(settings, seed, transport, tokens, runtime, company),
        }
    }

    /// Like [`Self::connect`], for blocking handles. It is for code that makes options for both
    /// kinds. [`blocking::Semaphore::builder`] makes only blocking handles.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::Semaphore, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        let backend = Arc::new(backend);
        let semaphore = self.connect_parts(backend.clone(), backend.clone())?;
        Ok(blocking::Semaphore::new(semaphore, backend))
    }
}

impl Builder<blocking::Semaphore> {
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
    pub fn connect<B>(self, backend: B) -> Result<blocking::Semaphore, Error>
    where
        B: Transport + BlockOn + 'static,
    {
        self.with_handle::<Semaphore>().connect_blocking(backend)
    }
}
