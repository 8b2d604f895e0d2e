//! The options of a handle.
//!
//! ```text
//!  Semaphore::builder ─┐
//!  Election::builder  ─┼─▶ Builder<T> ── options ──▶ connect ──▶ T
//!  Discovery::builder ─┤
//!  Client::builder ────┘
//! ```
//! The blocking handles begin with separate builders, which take the same options.

mod client;
mod discovery;
mod election;
mod semaphore;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::Semaphore;
use super::observer::{Observer, Observers};
use super::presence::Defaults;
use super::recorder::Recorder;
use crate::error::Error;
use crate::input::InvalidInput;
use crate::input::{Scope, SessionOptions, Value};
use crate::machine::Encoding;
use crate::subject::Subject;
use crate::token::Token;
use crate::token_source::{TokenProvider, TokenSource};

/// Collects the options of a handle, and checks them when it is connected. Nothing is sent before the handle is used.
///
/// `T` is the handle that comes out of it: a [`Semaphore`], an [`Election`](crate::Election), a
/// [`Discovery`](crate::Discovery), or the one of that name in [`blocking`](crate::blocking). Each has a function `builder`,
/// which begins one. All handles take the options of a discovery. The rest is for handles that contend, and some options are
/// for semaphores only.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct Builder<T: Buildable = Semaphore> {
    /// The first thing that was wrong, told when it is connected.
    told: Result<Told<T::Subject>, Error>,
}

/// A handle that a [`Builder`] builds.
pub trait Buildable: Sized {
    /// What it is about.
    type Subject: Named + Clone + fmt::Debug;
}

/// What a builder is about, as errors name it.
pub trait Named {
    /// Its name. The agent is not known yet.
    fn named(&self) -> Subject;
}

/// A handle that contends, for slots or for the lead.
pub trait Contends: Buildable<Subject = Contention<<Self as Contends>::Settings>> {
    /// What its machine is told.
    type Settings: Clone + fmt::Debug;
}

/// What every builder is told.
#[derive(Clone, Debug)]
struct Told<S> {
    subject: S,
    scope: Scope,
    /// Where the tokens come from, if not from the scope.
    tokens: Option<TokenProvider>,
    seed: Option<u64>,
}

/// What those who contend are told. `S` is what only a semaphore is told, or an election.
#[derive(Clone, Debug)]
pub struct Contention<S> {
    settings: S,
    value: Option<Value>,
    encoding: Option<Encoding>,
    session_changes: Vec<SessionChange>,
    farewell: Option<Duration>,
    observers: Observers,
    recorder: Option<Recorder>,
    is_isolated: bool,
}

/// What is told of the sessions, on top of what holds without it.
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
    /// The sessions as they are told, on top of these.
    fn session_options(&self, options: SessionOptions) -> Result<SessionOptions, InvalidInput> {
        let mut changes = self.session_changes.iter();
        changes.try_fold(options, |options, SessionChange(change)| change(options))
    }
}

impl<S> Told<Contention<S>> {
    /// What it was told, and what the defaults say of the rest.
    fn or(&self, defaults: &Defaults) -> Result<Defaults, InvalidInput> {
        let Contention {
            value,
            encoding,
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
        Ok(Defaults {
            scope: self.scope.clone().or(defaults.scope.clone()),
            value: value.clone().unwrap_or_else(|| defaults.value.clone()),
            encoding: encoding.unwrap_or(defaults.encoding),
            session_options,
            farewell: farewell.unwrap_or(defaults.farewell),
            observers: defaults.observers.clone().and(observers),
        })
    }
}

/// What every builder is told.
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

    /// The same options for another kind of handle.
    fn with_handle<U: Buildable<Subject = T::Subject>>(self) -> Builder<U> {
        Builder { told: self.told }
    }

    /// Where the requests go, as one value. It replaces the [`token`](Self::token),
    /// [`datacenter`](Self::datacenter), [`namespace`](Self::namespace), [`partition`](Self::partition) and
    /// [`consistent`](Self::consistent) that were given before.
    pub fn scope(self, scope: Scope) -> Self {
        self.with_tokens(None).scoped(|_| Ok(scope))
    }

    /// The ACL token of every request. An empty one is refused; for none, leave it out. A token that is replaced now and then
    /// comes from a
    /// [`token_source`](Self::token_source), or is set on the handle: [`Semaphore::set_token`](crate::Semaphore::set_token).
    pub fn token(self, token: impl Into<String>) -> Self {
        self.with_tokens(None)
            .scoped(|scope| Ok(scope.with_token(Token::new(token)?)))
    }

    /// Where the ACL token of each request comes from, in place of a [`token`](Self::token): a function, a file that an adapter
    /// reads again when it has changed, or a [`TokenSource`] of your own. A request that Consul refuses (403) is sent once more
    /// if the source has another token by then.
    pub fn token_source(self, source: impl TokenSource + 'static) -> Self {
        self.with_tokens(Some(TokenProvider::new(source)))
    }

    fn with_tokens(self, tokens: Option<TokenProvider>) -> Self {
        self.checked(|told| {
            told.tokens = tokens;
            Ok(())
        })
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

/// What those who contend are told.
impl<T: Contends> Builder<T> {
    fn contending(settings: Result<T::Settings, Error>) -> Self {
        Self::of(settings.map(|settings| Contention {
            settings,
            value: None,
            encoding: None,
            session_changes: Vec::new(),
            farewell: None,
            observers: Observers::default(),
            recorder: None,
            is_isolated: false,
        }))
    }

    /// What others see: in the contender keys of a semaphore, or in an election's key while this leads. Any bytes up to 512 KiB, of a semaphore up to 320 KiB ([`Value::MAX_OF_CONTENDER`]), such as a node's name, an
    /// address or a JSON document. A contender shows a value of more than 4 KiB from its claim on, and nothing before.
    pub fn value(self, value: impl Into<Vec<u8>>) -> Self {
        self.checked(|told| {
            told.subject.value = Some(Value::new(value)?);
            Ok(())
        })
    }

    /// How the steps of the protocol become requests, see [`Encoding`].
    pub fn encoding(self, encoding: Encoding) -> Self {
        self.checked(|told| {
            told.subject.encoding = Some(encoding);
            Ok(())
        })
    }

    /// How long Consul keeps the session of a holder or leader that falls silent, at least: 10 s to 24 h, 15 s by default. With
    /// a shorter TTL a crash is noticed sooner. With a longer one, longer outages cost no slot: four fifths of the TTL, and 48
    /// s at most. [`SessionOptions::with_ttl`] says how to choose it.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.session_option(move |options| options.with_ttl(ttl))
    }

    /// For how long nobody takes the place of a holder or leader after its session was invalidated: up to 60 s, by default as
    /// long as the TTL, in an election 15 s at least.
    ///
    /// It keeps two from holding at once when a session ends before its time, as when a server of
    /// Consul dies and its clients are cut off with it. In return nobody has the place for that long after a crash. A slot that
    /// is released, resigned or dropped is free at once. With a shorter delay two may hold: read
    /// [`SessionOptions::with_lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.session_option(move |options| options.with_lock_delay(delay))
    }

    /// The name of the sessions.
    pub fn session_name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.session_option(move |options| options.with_name(name.clone()))
    }

    /// The node that the sessions are tied to, instead of the agent's own. They end with it: see
    /// [`own_node`](Self::own_node).
    pub fn node(self, node: impl Into<String>) -> Self {
        let node = node.into();
        self.session_option(move |options| options.with_node(node.clone()))
    }

    /// The name of a node that belongs to no agent, on which the sessions are made. Then no restart of an agent and no death of
    /// a server ends a hold. It is registered when it is missing. Read [`SessionOptions::with_own_node`] for what it
    /// needs and costs.
    ///
    /// It is not the default, even where the token allows it: it writes to the catalog, which others read.
    pub fn own_node(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.session_option(move |options| options.with_own_node(name.clone()))
    }

    /// Ties the sessions to health checks of their node. Read [`SessionOptions::with_node_checks`]
    /// for what that costs.
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

    /// For a semaphore or an election of a [`Client`](crate::Client): it has separate sessions and renewals, and does not lose its
    /// slots or its term together with others.
    pub fn isolated(self) -> Self {
        self.checked(|told| {
            told.subject.is_isolated = true;
            Ok(())
        })
    }

    /// An [`Observer`], which is told of each grant, loss, outage and so on. May be given several times. An observer of a
    /// [`Client`](crate::Client) is told of all that is connected to it. A semaphore that a client has already keeps the
    /// observers that it was first built with.
    pub fn observer(self, observer: impl Observer + 'static) -> Self {
        self.checked(|told| {
            told.subject.observers.add(Arc::new(observer));
            Ok(())
        })
    }

    /// Writes down all that the machine behind the handle is told, so that
    /// [`replay`](crate::recording::replay) tells the same story: see [`Recorder`]. Tokens are not written. A client has no
    /// machine, so this has no effect on it.
    pub fn recorder(self, recorder: Recorder) -> Self {
        self.checked(|told| {
            told.subject.recorder = Some(recorder);
            Ok(())
        })
    }

    /// How long the end of a program may be put off to give back what it still holds, 1 s unless given. It takes as long
    /// as Consul needs for two or three requests. Zero turns it off.
    ///
    /// A program ends, by an error that `main` returns or by a panic, before anything that it has dropped is given back;
    /// without a farewell the slot is blocked until its session expires. Where that time is spent is the runtime's choice: on tokio
    /// where the tokio runtime is dropped, on threads and smol where the last handle is, which blocks there until what was
    /// held is given back. [`Semaphore::shutdown`](crate::Semaphore::shutdown) waits without blocking, and leaves nothing to wait for.
    ///
    /// Nothing is given back by `std::process::exit`, an abort or a signal that kills, nor what a static or a thread-local
    /// holds: drops don't run there.
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
            // What is wrong is wrong at once.
            told.subject.session_options(SessionOptions::default())?;
            Ok(())
        })
    }
}
