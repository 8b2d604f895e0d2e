//! One process, one presence: what its semaphores share.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;

use super::authorized::Tokens;
use super::builder::Defaults;
use super::house::House;
use super::owner::{self, Key, Owner};
use super::shared::Shared;
use super::{Discovery, Election, Semaphore};
use crate::error::Error;
use crate::http::{Request, Response};
use crate::input::{Prefix, Scope};
use crate::machine::{Participant, Settings};
use crate::runtime::{BoxFuture, Runtime, Unfinished};
use crate::time::Instant;
use crate::transport::{Transport, TransportError};

/// What the semaphores and elections of one process have in common: the agent, its connections, one driver, and the sessions.
///
/// A semaphore that is connected alone makes a session for each slot that it wants, and renews each. Those of a client share them:
/// the first slot that is wanted of any of them stands on the first session, the second of the same semaphore on the second. So
/// a thousand semaphores of which one slot each is held need one session, and one renewal in a while.
///
/// ```
/// use semaphore_core::Client;
/// # use transport_mock::MockConsul;
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
///
/// # world.run(async {
/// let client = Client::builder().value("node-1").connect(transport)?;
/// let first = client.semaphore("service/db/first", 3)?.acquire().await?;
/// let second = client.semaphore("service/db/second", 3)?.acquire().await?;
/// first.release().await?;
/// second.release().await?;
/// client.shutdown().await;
/// # Ok::<(), semaphore_core::Error>(())
/// # })?;
/// # Ok::<(), semaphore_core::Error>(())
/// ```
///
/// # Shared fate
/// What stands on one session ends with it: whoever takes it away, such as an administrator, ends all holds by it at once. Each of
/// them is told so. [`Builder::isolated`] gives one semaphore sessions of its own. An election always has its own.
///
/// # Handles
/// Clones share all of it. A semaphore that is asked for twice, with the same options, is one participant; so that a handler may
/// ask for it with each request. The client ends when its last handle, and those of its semaphores, are gone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    key: Arc<Key>,
    defaults: Defaults,
    known: Mutex<Known>,
}

/// The semaphores that somebody has, by their prefixes.
#[derive(Default)]
struct Known {
    semaphores: BTreeMap<Prefix, Weak<Shared<Participant>>>,
    /// From so many on those are looked for that nobody has any more.
    crowded_at: usize,
}

impl Known {
    fn add(&mut self, prefix: Prefix, semaphore: &Arc<Shared<Participant>>) {
        if self.semaphores.len() >= self.crowded_at {
            self.semaphores.retain(|_, it| it.strong_count() > 0);
            self.crowded_at = (self.semaphores.len() * 2).max(FEW);
        }
        self.semaphores.insert(prefix, Arc::downgrade(semaphore));
    }
}

/// So many are not worth a look.
const FEW: usize = 64;

impl Client {
    pub(super) fn start(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        seed: u64,
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let house = Arc::new(House::new(transport, tokens, runtime));
        owner::drive(&house, seed)?;
        let inner = Inner {
            key: Arc::new(Key::new(house, defaults.farewell())),
            defaults,
            known: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The client that this transport is.
    pub(super) fn of(transport: &dyn Transport) -> Option<&Self> {
        transport.shared()?.downcast_ref()
    }

    pub(super) fn key(&self) -> &Arc<Key> {
        &self.inner.key
    }

    pub(super) fn house(&self) -> &Arc<House> {
        self.inner.key.house()
    }

    /// What is taken where a builder is not told.
    pub(super) fn own_defaults(&self) -> &Defaults {
        &self.inner.defaults
    }

    /// The semaphore of `limit` slots under `prefix`, with the client's options. For others use
    /// [`Semaphore::builder`], and connect it to the client.
    ///
    /// # Errors
    /// As [`Builder::connect`], and [`Error::Closed`] after [`Self::shutdown`].
    pub fn semaphore(&self, prefix: impl AsRef<str>, limit: u32) -> Result<Semaphore, Error> {
        Semaphore::builder(prefix, limit).connect(self.clone())
    }

    /// The election under `key`, with the client's options and a session of its own.
    ///
    /// # Errors
    /// As [`Self::semaphore`].
    pub fn election(&self, key: impl AsRef<str>) -> Result<Election, Error> {
        Election::builder(key).connect(self.clone())
    }

    /// Who leads under `key`.
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub fn discovery(&self, key: impl AsRef<str>) -> Result<Discovery, Error> {
        Discovery::builder(key).connect(self.clone())
    }

    /// Closes all of it, and waits until every permit is released, every leadership given back, and nothing of this client's is
    /// left in Consul.
    ///
    /// # Cancel safety
    /// It stays closed; the rest goes on in the background.
    pub async fn shutdown(&self) {
        let house = self.house();
        house.shut_down();
        // A driver that has ended leaves nothing to wait for.
        let _ = house.await_quiet().await;
    }

    /// A participant with these settings, which is the one that there is, if it fits.
    pub(super) fn participant(
        &self,
        settings: Settings,
        seed: u64,
        tokens: Option<Tokens>,
        farewell: Duration,
    ) -> Result<Arc<Owner<Participant>>, Error> {
        let key = self.key();
        let is_usual = tokens.is_none() && settings.shares().is_some();
        let mut known = self
            .inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let there = known.semaphores.get(settings.prefix());
        if is_usual
            && let Some(there) = there.and_then(Weak::upgrade)
            && let Some(owner) = Owner::again(key, there, |it| *it.settings() == settings)
        {
            return Ok(owner);
        }
        let (prefix, shares) = (settings.prefix().clone(), settings.shares());
        let tokens = tokens.unwrap_or_default().or(key.house().tokens());
        let participant = Participant::new(settings, seed);
        let owner = Owner::join(key, participant, shares, tokens, farewell)?;
        if is_usual {
            known.add(prefix, &owner.0);
        }
        Ok(owner)
    }
}

/// What is connected to it is its own. Whoever sends a request of theirs through it uses its connections, and its token.
#[async_trait]
impl Transport for Client {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.house().authorized().send(request).await
    }

    fn defaults(&self) -> Scope {
        self.inner.defaults.scope().clone()
    }

    fn shared(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

#[async_trait]
impl Runtime for Client {
    fn now(&self) -> Instant {
        self.house().runtime().now()
    }

    async fn sleep(&self, duration: Duration) {
        self.house().runtime().sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.house().runtime().spawn(future)
    }

    fn seed(&self) -> u64 {
        self.house().runtime().seed()
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        self.house().runtime().linger(rest);
    }

    fn finish(&self, rest: Unfinished) {
        self.house().runtime().finish(rest);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
