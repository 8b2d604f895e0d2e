//! The options of only a semaphore, and how it is built.

use std::sync::Arc;

use super::{Builder, Contends, Contention, Named, Told};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::observer::Surroundings;
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

impl Contends for Semaphore {
    type Settings = Settings;
}

impl blocking::Semaphore {
    /// See [`Semaphore::builder`](crate::Semaphore::builder). It builds blocking handles.
    pub fn builder(prefix: impl AsRef<str>, limit: u32) -> Builder<Self> {
        Builder::for_semaphore(prefix.as_ref(), limit)
    }
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

connects! {
    Semaphore, Contention<Settings>,
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    errors: /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
}

fn build(
    told: Told<Contention<Settings>>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
) -> Result<Semaphore, Error> {
    let seed = told.seed.unwrap_or_else(|| runtime.seed());
    let (known, shares) = told.completed(&*transport)?;
    let settings = told.subject.settings;
    let settings = settings
        .with_value(known.value.of_contender()?)
        .with_scope(known.scope);
    let settings = if shares {
        settings.with_shared_sessions(known.session_options)
    } else {
        settings.with_session_options(known.session_options)
    };
    let tokens = Tokens::of(told.tokens);
    let (prefix, limit) = (settings.prefix().as_str(), settings.limit());
    let subject = Subject::of_semaphore(prefix, limit, transport.address());
    let surroundings = Surroundings::new(subject, known.observers, known.farewell);
    Semaphore::connect(settings, seed, transport, tokens, runtime, surroundings)
}
