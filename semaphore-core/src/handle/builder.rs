//! How a semaphore is told what it is.

use core::time::Duration;
use std::sync::Arc;

use super::blocking;
use super::{Election, Semaphore};
use crate::error::{Error, InvalidInput};
use crate::id::SessionId;
use crate::input::{Behavior, LockKey, Prefix, Scope, SessionOptions, Value};
use crate::machine::{ElectionSettings, Encoding, Settings};
use crate::token::Token;
use crate::transport::{BlockOn, Runtime, Transport};

/// Collects what a [`Semaphore`] is told, and checks it when it is connected. Nothing is sent
/// before the first acquisition. What an election is told is collected in the same way: `S` is what
/// only one of the two has.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct Builder<S = Settings> {
    /// The first thing that was wrong, told when it is connected.
    parts: Result<Parts<S>, InvalidInput>,
}

#[derive(Clone, Debug)]
pub(super) struct Parts<S> {
    pub(super) settings: S,
    pub(super) session_options: SessionOptions,
    pub(super) scope: Scope,
    pub(super) seed: Option<u64>,
}

/// What only a semaphore is told.
impl Builder<Settings> {
    pub(super) fn new(prefix: &str, limit: u32) -> Self {
        let settings = Prefix::new(prefix).and_then(|prefix| Settings::new(prefix, limit));
        Self::of(settings)
    }

    /// What the contender keys show to whoever looks at the semaphore: any bytes up to 512 KiB, such
    /// as a node's name.
    pub fn value(self, value: impl Into<Vec<u8>>) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_value(Value::new(value)?);
            Ok(())
        })
    }

    /// How the steps of the protocol become requests, see [`Encoding`].
    pub fn encoding(self, encoding: Encoding) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_encoding(encoding);
            Ok(())
        })
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

    /// The lock delay of the sessions, up to 60 s, see [`SessionOptions::with_lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.session_option(|options| options.with_lock_delay(delay))
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
        let settings = parts.settings.with_scope(parts.scope);
        let settings = if settings.owns_sessions() {
            settings.with_session_options(parts.session_options)
        } else {
            settings
        };
        Ok(Semaphore::start(settings, seed, transport, runtime))
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

/// Collects what an [`Election`] is told.
pub type ElectionBuilder = Builder<ElectionSettings>;

/// What only an election is told.
impl Builder<ElectionSettings> {
    pub(super) fn for_election(key: &str) -> Self {
        Self::of(LockKey::new(key).map(ElectionSettings::new))
    }

    /// What the key shows of the leader: any bytes up to 512 KiB, such as its address or a JSON
    /// document. Whoever looks for the leader reads it.
    pub fn value(self, value: impl Into<Vec<u8>>) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_value(Value::new(value)?);
            Ok(())
        })
    }

    /// How long nobody may lead after a leader's session was invalidated: up to 60 s, 15 s unless
    /// given.
    ///
    /// It protects from a leader that does not know yet that it is none: an operator destroyed its
    /// session, or a health check failed, while it can't reach Consul. Such a leader stops by itself
    /// when its lease is over, at nine tenths of the TTL, so a lock delay of at least the TTL keeps
    /// the two from overlapping. A leader whose session *expires* has stopped long before. In return
    /// nobody leads for that long after a crash. A resignation has no delay.
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.session_option(|options| options.with_lock_delay(delay))
    }

    /// How the steps of the protocol become requests, see [`Encoding`].
    pub fn encoding(self, encoding: Encoding) -> Self {
        self.checked(|parts| {
            parts.settings = parts.settings.clone().with_encoding(encoding);
            Ok(())
        })
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
            .with_scope(parts.scope)
            .with_session_options(parts.session_options);
        Ok(Election::start(settings, seed, transport, runtime))
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

/// What every builder is told.
impl<S: Clone> Builder<S> {
    pub(super) fn of(settings: Result<S, InvalidInput>) -> Self {
        let parts = settings.map(|settings| Parts {
            settings,
            session_options: SessionOptions::default(),
            scope: Scope::default(),
            seed: None,
        });
        Self { parts }
    }

    /// How long a holder or leader that falls silent stays one at least, 10 s to 24 h; 15 s unless
    /// given. Shorter means that a crash is noticed sooner, longer that longer outages cost nothing.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.session_option(|options| options.with_ttl(ttl))
    }

    /// The name of the sessions.
    pub fn session_name(self, name: impl Into<String>) -> Self {
        self.session_option(|options| options.with_name(name))
    }

    /// The node that the sessions are tied to, instead of the agent's own.
    pub fn node(self, node: impl Into<String>) -> Self {
        self.session_option(|options| options.with_node(node))
    }

    /// Ties the sessions to health checks of their node. Read [`SessionOptions::with_node_checks`]
    /// for what that costs.
    pub fn node_checks<I>(self, checks: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.session_option(|options| options.with_node_checks(checks))
    }

    /// Ties the sessions to health checks of services, see [`SessionOptions::with_service_checks`].
    pub fn service_checks<I>(self, checks: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.session_option(|options| options.with_service_checks(checks))
    }

    /// The ACL token of every request. Empty is refused; leave it out for none.
    pub fn token(self, token: impl Into<String>) -> Self {
        self.scoped(|scope| Ok(scope.with_token(Token::new(token)?)))
    }

    /// The datacenter of every request.
    pub fn datacenter(self, name: impl Into<String>) -> Self {
        self.scoped(|scope| scope.with_datacenter(name))
    }

    /// The namespace of every request (Consul Enterprise).
    pub fn namespace(self, name: impl Into<String>) -> Self {
        self.scoped(|scope| scope.with_namespace(name))
    }

    /// The admin partition of every request (Consul Enterprise).
    pub fn partition(self, name: impl Into<String>) -> Self {
        self.scoped(|scope| scope.with_partition(name))
    }

    /// Whether every read is confirmed by the leader, see [`Scope::with_consistent_reads`].
    pub fn consistent(self, consistent: bool) -> Self {
        self.scoped(|scope| Ok(scope.with_consistent_reads(consistent)))
    }

    /// Fixes the seed of the jitter, to repeat a run. Otherwise the runtime gives one.
    pub fn seed(self, seed: u64) -> Self {
        self.checked(|parts| {
            parts.seed = Some(seed);
            Ok(())
        })
    }

    /// Everything that was told, or the first thing that was wrong with it.
    pub(super) fn parts(self) -> Result<Parts<S>, Error> {
        Ok(self.parts?)
    }

    pub(super) fn session_option(
        self,
        change: impl FnOnce(SessionOptions) -> Result<SessionOptions, InvalidInput>,
    ) -> Self {
        self.checked(|parts| {
            parts.session_options = change(parts.session_options.clone())?;
            Ok(())
        })
    }

    fn scoped(self, change: impl FnOnce(Scope) -> Result<Scope, InvalidInput>) -> Self {
        self.checked(|parts| {
            parts.scope = change(parts.scope.clone())?;
            Ok(())
        })
    }

    pub(super) fn checked(
        self,
        change: impl FnOnce(&mut Parts<S>) -> Result<(), InvalidInput>,
    ) -> Self {
        let parts = self.parts.and_then(|mut parts| {
            change(&mut parts)?;
            Ok(parts)
        });
        Self { parts }
    }
}
