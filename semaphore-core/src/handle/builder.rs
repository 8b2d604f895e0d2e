//! The options of a handle.
//!
//! ```text
//!  Semaphore::builder ─┐
//!  Election::builder  ─┼─▶ Builder<T> ── options ──▶ connect ──▶ T
//!  Discovery::builder ─┤
//!  Client::builder ────┘
//! ```
//! The blocking handles have the same builder: `Builder<blocking::Semaphore>` and so on.

#[macro_use]
mod connect;

mod client;
mod discovery;
mod election;
mod semaphore;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::Semaphore;
use super::observer::{Observer, Observers};
use super::presence::{Defaults, Presence};
use crate::error::Error;
use crate::input::InvalidInput;
use crate::input::{Scope, SessionOptions, Value};
use crate::subject::Subject;
use crate::token::Token;
use crate::token_source::{TokenProvider, TokenSource};
use crate::transport::Transport;

/// Collects the options of a handle. `connect` checks them. Nothing is sent before the handle is
/// used.
///
/// `T` is the handle that it builds: a [`Semaphore`], an [`Election`](crate::Election), a
/// [`Discovery`](crate::Discovery), or one of the same name in [`blocking`](crate::blocking). Each
/// has a function `builder`. A discovery's options are for all handles. The rest is for handles
/// that contend, and some options are only for semaphores.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct Builder<T: Buildable = Semaphore> {
    /// The options, or the first error, which `connect` returns.
    told: Result<Told<T::Subject>, Error>,
}

/// A handle that a [`Builder`] builds.
pub trait Buildable: Sized {
    /// The semaphore or election, with its options.
    type Subject: Named + Clone + fmt::Debug;
}

/// A subject that errors can name.
pub trait Named {
    /// Its name. The agent is not known yet.
    fn named(&self) -> Subject;
}

/// A handle that contends, for slots or for the lead.
pub trait Contends: Buildable<Subject = Contention<<Self as Contends>::Settings>> {
    /// The options of its machine.
    type Settings: Clone + fmt::Debug;
}

/// The options of every builder.
#[derive(Clone, Debug)]
struct Told<S> {
    subject: S,
    scope: Scope,
    /// The source of the tokens, if not the scope.
    tokens: Option<TokenProvider>,
    seed: Option<u64>,
}

/// The options of handles that contend. `S` has those of only a semaphore or only an election.
#[derive(Clone, Debug)]
pub struct Contention<S> {
    settings: S,
    value: Option<Value>,
    session_changes: Vec<SessionChange>,
    farewell: Option<Duration>,
    observers: Observers,
    is_isolated: bool,
}

/// A change of the default session options.
#[derive(Clone)]
struct SessionChange(
    Arc<dyn Fn(SessionOptions) -> Result<SessionOptions, InvalidInput> + Send + Sync>,
);

impl fmt::Debug for SessionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionChange")
    }
}

impl<S> Contention<S> {
    /// These options with all changes.
    fn session_options(&self, options: SessionOptions) -> Result<SessionOptions, InvalidInput> {
        let mut changes = self.session_changes.iter();
        changes.try_fold(options, |options, SessionChange(change)| change(options))
    }
}

impl<S> Told<Contention<S>> {
    /// Its options, completed by the defaults.
    fn or(&self, defaults: &Defaults) -> Result<Defaults, InvalidInput> {
        let Contention {
            value,
            farewell,
            observers,
            ..
        } = &self.subject;
        let session_options = defaults.session_options.clone();
        let session_options = self.subject.session_options(session_options)?;
        if session_options.outlasts_lock_delay() {
            tracing::warn!(
                lock_delay = ?session_options.lock_delay(),
                ttl = ?session_options.ttl(),
                "the lock delay is shorter than the TTL: when a session ends before its time, as when a \
                 server of Consul dies, two may hold at once"
            );
        }
        if session_options.outlasts_every_lock_delay() {
            tracing::warn!(
                ttl = ?session_options.ttl(),
                "the TTL is over a minute: after a crash the place stays taken for up to twice the TTL, and nobody holds through an \
                 outage of more than a minute for it"
            );
        }
        Ok(Defaults {
            scope: self.scope.clone().or(defaults.scope.clone()),
            value: value.clone().unwrap_or_else(|| defaults.value.clone()),
            session_options,
            farewell: farewell.unwrap_or(defaults.farewell),
            observers: defaults.observers.clone().and(observers),
        })
    }
}

impl<S> Told<Contention<S>>
where
    Contention<S>: Named,
{
    /// These options, completed by the defaults of the client behind the transport, if there is
    /// one. And whether sessions are shared with the client's others.
    fn completed(&self, transport: &dyn Transport) -> Result<(Defaults, bool), Error> {
        let presence = Presence::of(transport);
        let known = presence.map_or_else(Defaults::default, |it| it.defaults().clone());
        let mut known = self
            .or(&known)
            .map_err(|input| Error::from(input).or_about(&self.subject.named()))?;
        known.scope = known.scope.or(transport.defaults());
        // Renewing a shared session needs the client's token.
        let shares = presence.is_some() && !self.subject.is_isolated && self.tokens.is_none();
        Ok((known, shares))
    }
}

/// Options of every builder.
impl<T: Buildable> Builder<T> {
    fn of(subject: Result<T::Subject, Error>) -> Self {
        let told = subject.map(|subject| Told {
            subject,
            scope: Scope::default(),
            tokens: None,
            seed: None,
        });
        Self { told }
    }

    /// Sets the whole scope of the requests. It replaces an earlier [`token`](Self::token),
    /// [`datacenter`](Self::datacenter), [`namespace`](Self::namespace),
    /// [`partition`](Self::partition) and [`consistent`](Self::consistent).
    pub fn scope(self, scope: Scope) -> Self {
        self.with_tokens(None).scoped(|_| Ok(scope))
    }

    /// Sets the ACL token of every request. An empty token is an error; for no token, leave this
    /// out. If the token is replaced now and then, use a [`token_source`](Self::token_source), or
    /// set the new one on the handle: [`Semaphore::set_token`](crate::Semaphore::set_token).
    pub fn token(self, token: impl Into<String>) -> Self {
        self.with_tokens(None)
            .scoped(|scope| Ok(scope.with_token(Token::new(token)?)))
    }

    /// Sets the source of each request's ACL token, in place of a [`token`](Self::token): a
    /// function, a file that an adapter reads again after changes, or your own [`TokenSource`]. If
    /// Consul refuses a request (403) and the source has another token by then, the request is sent
    /// once more.
    pub fn token_source(self, source: impl TokenSource + 'static) -> Self {
        self.with_tokens(Some(TokenProvider::new(source)))
    }

    fn with_tokens(self, tokens: Option<TokenProvider>) -> Self {
        self.checked(|told| {
            told.tokens = tokens;
            Ok(())
        })
    }

    /// Sets the datacenter of every request.
    pub fn datacenter(self, name: impl Into<String>) -> Self {
        self.scoped(|scope| scope.with_datacenter(name))
    }

    /// Sets the namespace of every request (Consul Enterprise).
    pub fn namespace(self, name: impl Into<String>) -> Self {
        self.scoped(|scope| scope.with_namespace(name))
    }

    /// Sets the admin partition of every request (Consul Enterprise).
    pub fn partition(self, name: impl Into<String>) -> Self {
        self.scoped(|scope| scope.with_partition(name))
    }

    /// Whether every read is confirmed by the leader, see [`Scope::with_consistent_reads`].
    pub fn consistent(self, consistent: bool) -> Self {
        self.scoped(|scope| Ok(scope.with_consistent_reads(consistent)))
    }

    /// Fixes the seed of the jitter, to repeat a run. By default the runtime gives a seed.
    pub fn seed(self, seed: u64) -> Self {
        self.checked(|told| {
            told.seed = Some(seed);
            Ok(())
        })
    }

    fn scoped(self, change: impl FnOnce(Scope) -> Result<Scope, InvalidInput>) -> Self {
        self.checked(|told| {
            told.scope = change(told.scope.clone())?;
            Ok(())
        })
    }

    fn checked(
        self,
        change: impl FnOnce(&mut Told<T::Subject>) -> Result<(), InvalidInput>,
    ) -> Self {
        let told = self.told.and_then(|mut told| {
            let changed = change(&mut told);
            changed.map_err(|input| Error::from(input).or_about(&told.subject.named()))?;
            Ok(told)
        });
        Self { told }
    }
}

/// Options of handles that contend.
impl<T: Contends> Builder<T> {
    fn contending(settings: Result<T::Settings, Error>) -> Self {
        Self::of(settings.map(|settings| Contention {
            settings,
            value: None,
            session_changes: Vec::new(),
            farewell: None,
            observers: Observers::default(),
            is_isolated: false,
        }))
    }

    /// Sets what others see: in the contender keys of a semaphore, or in an election's key while
    /// this leads. Use any bytes, such as a node's name, an address or a JSON document, up to 320
    /// KiB, or 4 KiB for a semaphore ([`Value::MAX_OF_CONTENDER`]).
    pub fn value(self, value: impl Into<Vec<u8>>) -> Self {
        self.checked(|told| {
            told.subject.value = Some(Value::new(value)?);
            Ok(())
        })
    }

    /// Sets the least time for which Consul keeps the session of a silent holder or leader: 10 s to
    /// 24 h, 15 s by default. With a shorter TTL a crash is noticed sooner. With a longer TTL,
    /// longer outages cost no slot: outages of four fifths of the TTL, up to 48 s.
    /// [`SessionOptions::with_ttl`] says how to choose it.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.session_option(move |options| options.with_ttl(ttl))
    }

    /// Sets how long a holder's or leader's place stays empty after its session was invalidated.
    /// The most is 60 s. The default is the TTL, and for an election at least 15 s.
    ///
    /// It prevents two from holding at once when a session ends early, for example when a Consul
    /// server dies and its clients are cut off with it. The price is that after a crash nobody has
    /// the place for that time. A slot that is released, resigned or dropped is free at once. With
    /// a shorter delay two may hold: read [`SessionOptions::with_lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.session_option(move |options| options.with_lock_delay(delay))
    }

    /// Sets the name of the sessions.
    pub fn session_name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.session_option(move |options| options.with_name(name.clone()))
    }

    /// Sets the node that the sessions are tied to, instead of the agent's node. They end with it:
    /// see [`own_node`](Self::own_node).
    pub fn node(self, node: impl Into<String>) -> Self {
        let node = node.into();
        self.session_option(move |options| options.with_node(node.clone()))
    }

    /// Creates the sessions on a node of this name that belongs to no agent. Then a restarted agent
    /// or a dead server ends no hold. The node is registered if it is missing. Read
    /// [`SessionOptions::with_own_node`] for what it needs and costs.
    ///
    /// It is not the default, even if the token allows it: it writes to the catalog, which others
    /// read.
    pub fn own_node(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.session_option(move |options| options.with_own_node(name.clone()))
    }

    /// Ties the sessions to health checks of their node. Read [`SessionOptions::with_node_checks`]
    /// for the cost.
    pub fn node_checks<I>(self, checks: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let checks: Vec<String> = checks.into_iter().map(Into::into).collect();
        self.session_option(move |options| options.with_node_checks(checks.iter().cloned()))
    }

    /// Ties the sessions to health checks of services, see [`SessionOptions::with_service_checks`].
    pub fn service_checks<I>(self, checks: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let checks: Vec<String> = checks.into_iter().map(Into::into).collect();
        self.session_option(move |options| options.with_service_checks(checks.iter().cloned()))
    }

    /// For a semaphore or an election of a [`Client`](crate::Client): it gets separate sessions and
    /// renewals, so it does not lose its slots or its term together with others.
    pub fn isolated(self) -> Self {
        self.checked(|told| {
            told.subject.is_isolated = true;
            Ok(())
        })
    }

    /// Adds an [`Observer`], which is told of each grant, loss, outage and so on. An observer of a
    /// [`Client`](crate::Client) is told of everything that is connected to the client. If a client
    /// already has the semaphore, the semaphore keeps its first observers.
    pub fn observer(self, observer: impl Observer + 'static) -> Self {
        self.checked(|told| {
            told.subject.observers.add(Arc::new(observer));
            Ok(())
        })
    }

    /// Sets how long the end of a program may be delayed to give back what it still holds. The
    /// default is 1 s. It takes as long as two or three requests. Zero turns it off.
    ///
    /// A program whose `main` returns an error or panics ends before the dropped handles have given
    /// anything back. Without a farewell the slot stays taken until its session expires. The
    /// runtime decides where the time is spent: on tokio, dropping the runtime waits; on threads
    /// and smol, dropping the last handle does. [`Semaphore::shutdown`](crate::Semaphore::shutdown)
    /// waits without blocking, and leaves nothing to wait for.
    ///
    /// `std::process::exit`, an abort and a killing signal give nothing back, and neither does a
    /// handle in a static or a thread-local: drops don't run there.
    pub fn farewell(self, most: Duration) -> Self {
        self.checked(|told| {
            told.subject.farewell = Some(most);
            Ok(())
        })
    }

    fn session_option(
        self,
        change: impl Fn(SessionOptions) -> Result<SessionOptions, InvalidInput> + Send + Sync + 'static,
    ) -> Self {
        self.checked(|told| {
            let changes = &mut told.subject.session_changes;
            changes.push(SessionChange(Arc::new(change)));
            // Errors are reported at once.
            told.subject.session_options(SessionOptions::default())?;
            Ok(())
        })
    }
}
