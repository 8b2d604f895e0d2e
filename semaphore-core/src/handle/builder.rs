//! How a semaphore, or an election, is told what it is.

mod election;
mod semaphore;

use core::time::Duration;

use crate::error::Error;
use crate::input::InvalidInput;
use crate::input::{Scope, SessionOptions, Value};
use crate::machine::{ElectionSettings, Encoding, Settings};
use crate::token::Token;

/// Collects what a [`Semaphore`](crate::Semaphore) is told, and checks it when it is connected. Nothing is sent
/// before the first acquisition. What an election is told is collected in the same way: `S` is what
/// only one of the two has.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct Builder<S = Settings> {
    /// The first thing that was wrong, told when it is connected.
    parts: Result<Parts<S>, InvalidInput>,
}

#[derive(Clone, Debug)]
struct Parts<S> {
    settings: S,
    value: Value,
    encoding: Encoding,
    session_options: SessionOptions,
    scope: Scope,
    seed: Option<u64>,
}

/// Collects what an [`Election`](crate::Election) is told.
pub type ElectionBuilder = Builder<ElectionSettings>;

/// What every builder is told.
impl<S: Clone> Builder<S> {
    fn of(settings: Result<S, InvalidInput>) -> Self {
        let parts = settings.map(|settings| Parts {
            settings,
            value: Value::default(),
            encoding: Encoding::default(),
            session_options: SessionOptions::default(),
            scope: Scope::default(),
            seed: None,
        });
        Self { parts }
    }

    /// What is shown to whoever looks: by the contender keys of a semaphore, or by an election's key of its
    /// leader. Any bytes up to 512 KiB, such as a node's name, an address or a JSON document.
    pub fn value(self, value: impl Into<Vec<u8>>) -> Self {
        self.checked(|parts| {
            parts.value = Value::new(value)?;
            Ok(())
        })
    }

    /// How the steps of the protocol become requests, see [`Encoding`].
    pub fn encoding(self, encoding: Encoding) -> Self {
        self.checked(|parts| {
            parts.encoding = encoding;
            Ok(())
        })
    }

    /// How long a holder or leader that falls silent stays one at least, 10 s to 24 h; 15 s unless
    /// given. Shorter means that a crash is noticed sooner, longer that longer outages cost nothing, up to a
    /// minute: see [`SessionOptions::with_ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.session_option(|options| options.with_ttl(ttl))
    }

    /// For how long after the session of a holder or leader was invalidated nobody takes its place: up to
    /// 60 s, and as long as the TTL unless given; in an election 15 s at least.
    ///
    /// It keeps two from holding at once when a session ends before its time, as when a server of
    /// Consul dies and its clients are cut off with it. In return nobody has the place for that long after a
    /// crash; what is released, resigned or dropped is free at once. A shorter one risks two: read
    /// [`SessionOptions::with_lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.session_option(|options| options.with_lock_delay(delay))
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
    fn parts(self) -> Result<Parts<S>, Error> {
        let parts = self.parts?;
        let options = &parts.session_options;
        if options.outlasts_lock_delay() {
            tracing::warn!(
                lock_delay = ?options.lock_delay(),
                ttl = ?options.ttl(),
                "the lock delay is shorter than the TTL: when a session ends before its time, as when a \
                 server of Consul dies, two may hold at once"
            );
        }
        Ok(parts)
    }

    fn session_option(
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

    fn checked(self, change: impl FnOnce(&mut Parts<S>) -> Result<(), InvalidInput>) -> Self {
        let parts = self.parts.and_then(|mut parts| {
            change(&mut parts)?;
            Ok(parts)
        });
        Self { parts }
    }
}
