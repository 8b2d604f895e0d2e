//! How elections are built.

use std::sync::Arc;

use super::{Builder, Contends, Contention, Named, Told};
use crate::error::Error;
use crate::handle::authorized::Tokens;
use crate::handle::observer::Surroundings;
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

impl Contends for Election {
    type Settings = ElectionSettings;
}

impl blocking::Election {
    /// See [`Election::builder`](crate::Election::builder). It builds blocking handles.
    pub fn builder(key: impl AsRef<str>) -> Builder<Self> {
        Builder::for_election(key.as_ref())
    }
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

connects! {
    Election, Contention<ElectionSettings>,
    /// Checks everything and starts the driver on the backend's runtime. Sends nothing yet.
    errors: /// [`Error::InvalidInput`] with the first thing that is wrong, [`Error::NoTask`].
}

fn build(
    told: Told<Contention<ElectionSettings>>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
) -> Result<Election, Error> {
    let seed = told.seed.unwrap_or_else(|| runtime.seed());
    let (known, shares) = told.completed(&*transport)?;
    let settings = told.subject.settings;
    let settings = settings.with_value(known.value).with_scope(known.scope);
    let settings = if shares {
        settings.with_shared_sessions(known.session_options)
    } else {
        settings.with_session_options(known.session_options)
    };
    let subject = Subject::of_election(settings.key().as_str(), transport.address());
    let surroundings = Surroundings::new(subject, known.observers, known.farewell);
    let tokens = Tokens::of(told.tokens);
    Election::connect(settings, seed, transport, tokens, runtime, surroundings)
}
