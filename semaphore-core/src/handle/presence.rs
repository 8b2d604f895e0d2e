//! What all handles of a [`Client`](crate::Client) have in common.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::authorized::Tokens;
use super::discovery::{self, Discovery, Following, Home};
use super::hub::{Hub, SharedMachine};
use super::observer::{Audience, Observers, Surroundings};
use super::owner::{self, Key, Owner};
use super::shared::Shared;
use crate::error::Error;
use crate::input::{LockKey, Prefix, Scope, SessionOptions, Value};
use crate::machine::{
    Candidate, ElectionSettings, Machine, MachineSet, Participant, Settings, Shares,
};
use crate::runtime::Runtime;
use crate::subject::Subject;
use crate::sync::{Mutex, lock};
use crate::token_source::TokenProvider;
use crate::transport::Transport;

/// One client's part of a process: its hub, and the default options.
#[derive(Clone)]
pub(super) struct Presence {
    inner: Arc<Inner>,
}

/// The options that apply if a builder has none.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    pub(super) scope: Scope,
    pub(super) value: Value,
    pub(super) session_options: SessionOptions,
    pub(super) farewell: Duration,
    pub(super) observers: Observers,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            value: Value::default(),
            session_options: SessionOptions::default(),
            farewell: FAREWELL,
            observers: Observers::default(),
        }
    }
}

/// How long the end of a program may be delayed, unless
/// [`Builder::farewell`](crate::Builder::farewell) sets another time.
const FAREWELL: Duration = Duration::from_secs(1);

struct Inner {
    key: Arc<Key>,
    defaults: Defaults,
    semaphores: Mutex<Known<Prefix, Shared<Participant>>>,
    elections: Mutex<Known<LockKey, Shared<Candidate>>>,
    discoveries: Mutex<Known<LockKey, discovery::Inner>>,
}

/// What is in use, by prefix or key.
struct Known<K, T> {
    there: BTreeMap<K, Weak<T>>,
    /// At this number of entries, those that nobody uses any more are removed.
    crowded_at: usize,
}

/// Fewer entries are not worth a cleanup.
const FEW: usize = 64;

impl<K: Ord, T> Known<K, T> {
    fn new() -> Mutex<Self> {
        Mutex::new(Self {
            there: BTreeMap::new(),
            crowded_at: FEW,
        })
    }

    fn find(&self, name: &K) -> Option<Arc<T>> {
        self.there.get(name)?.upgrade()
    }

    fn add(&mut self, name: K, entry: &Arc<T>) {
        if self.there.len() >= self.crowded_at {
            self.there.retain(|_, it| it.strong_count() > 0);
            self.crowded_at = (self.there.len() * 2).max(FEW);
        }
        self.there.insert(name, Arc::downgrade(entry));
    }
}

impl Presence {
    pub(super) fn start(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        machines: MachineSet<Arc<dyn SharedMachine>>,
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let subject = Subject::of_client(transport.address());
        let audience = Arc::new(Audience::new(subject, defaults.observers.clone()));
        let hub = Arc::new(Hub::new(transport, tokens, runtime, audience));
        owner::drive(&hub, machines)?;
        let inner = Arc::new(Inner {
            key: Arc::new(Key::new(hub, defaults.farewell)),
            defaults,
            semaphores: Known::new(),
            elections: Known::new(),
            discoveries: Known::new(),
        });
        Ok(Self { inner })
    }

    /// The presence of a client that is used as this transport.
    pub(super) fn of(transport: &dyn Transport) -> Option<&Self> {
        transport.shared()?.downcast_ref()
    }

    pub(super) fn key(&self) -> &Arc<Key> {
        &self.inner.key
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        self.inner.key.hub()
    }

    pub(super) fn defaults(&self) -> &Defaults {
        &self.inner.defaults
    }

    /// A participant with these settings: the existing one, if it fits and shares its sessions.
    pub(super) fn participant(
        &self,
        settings: Settings,
        seed: u64,
        tokens: Tokens,
        surroundings: Surroundings,
    ) -> Result<Arc<Owner<Participant>>, Error> {
        let (prefix, shares) = (settings.prefix().clone(), settings.shares());
        let participant = Participant::new(settings, seed);
        let Some(shares) = shares else {
            return self.alone(participant, tokens, surroundings);
        };
        let known = &self.inner.semaphores;
        self.shared(
            known,
            prefix,
            participant,
            Participant::settings,
            shares,
            surroundings,
        )
    }

    /// A candidate with these settings: the existing one, if it fits and shares its sessions.
    pub(super) fn candidate(
        &self,
        settings: ElectionSettings,
        seed: u64,
        tokens: Tokens,
        surroundings: Surroundings,
    ) -> Result<Arc<Owner<Candidate>>, Error> {
        let (key, shares) = (settings.key().clone(), settings.shares());
        let candidate = Candidate::new(settings, seed);
        let Some(shares) = shares else {
            return self.alone(candidate, tokens, surroundings);
        };
        let known = &self.inner.elections;
        self.shared(
            known,
            key,
            candidate,
            Candidate::settings,
            shares,
            surroundings,
        )
    }

    /// Adds a machine with separate sessions.
    fn alone<M: Machine>(
        &self,
        machine: M,
        tokens: Tokens,
        surroundings: Surroundings,
    ) -> Result<Arc<Owner<M>>, Error> {
        let tokens = tokens.or(self.hub().tokens());
        Owner::join(self.key(), machine, None, tokens, surroundings)
    }

    /// Adds a machine that shares sessions, unless there is one with these settings.
    fn shared<K: Ord, M: Machine, S: PartialEq>(
        &self,
        known: &Mutex<Known<K, Shared<M>>>,
        name: K,
        machine: M,
        settings: fn(&M) -> &S,
        shares: Shares,
        surroundings: Surroundings,
    ) -> Result<Arc<Owner<M>>, Error> {
        let mut known = lock(known);
        if let Some(there) = known.find(&name)
            && let Some(owner) =
                Owner::again(self.key(), there, |it| settings(it) == settings(&machine))
        {
            return Ok(owner);
        }
        // Setting its token also sets that of the sessions.
        let tokens = self.hub().tokens().clone();
        let owner = Owner::join(self.key(), machine, Some(shares), tokens, surroundings)?;
        known.add(name, &owner.0);
        Ok(owner)
    }

    /// A discovery of this election: the existing one, if it fits.
    pub(super) fn discovery(
        &self,
        following: Following,
        scope: Scope,
        seed: Option<u64>,
        tokens: Option<TokenProvider>,
    ) -> Discovery {
        let is_own = seed.is_some() || tokens.is_some();
        let mut known = lock(&self.inner.discoveries);
        if !is_own && let Some(inner) = known.find(&following.key) {
            let there = Discovery { inner };
            if there.is_of(&following, &scope) {
                return there;
            }
        }
        let hub = self.hub();
        let (transport, runtime) = (Arc::clone(hub.transport()), Arc::clone(hub.runtime()));
        let tokens = Tokens::of(tokens).or(hub.tokens());
        let transport = tokens.over(transport);
        let home = self.home(&following.key, &scope).filter(|_| !is_own);
        let discovery = Discovery::new(following, scope, seed, transport, tokens, runtime, home);
        if !is_own {
            known.add(discovery.key().clone(), &discovery.inner);
        }
        discovery
    }

    /// Where followers of this key are looked after.
    fn home(&self, key: &LockKey, scope: &Scope) -> Option<Home> {
        let defaults = self.defaults();
        let candidates = ElectionSettings::new(key.clone())
            .with_shared_sessions(defaults.session_options.clone())
            .with_scope(scope.clone());
        Home::of(self.hub(), &candidates)
    }
}
