//! What all handles of a [`Client`](crate::Client) have in common.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::authorized::Tokens;
use super::discovery::{Discovery, Following, Home, WeakDiscovery};
use super::house::{Dweller, House};
use super::observer::{Audience, Company, Observers};
use super::owner::{self, Key, Owner};
use super::shared::Shared;
use crate::error::Error;
use crate::input::{LockKey, Prefix, Scope, SessionOptions, Value};
use crate::machine::{Candidate, ElectionSettings, Household, Participant, Settings};
use crate::runtime::Runtime;
use crate::subject::Subject;
use crate::token_source::TokenProvider;
use crate::transport::Transport;

/// One client's part of a process: its house, and the default options.
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
    known: Mutex<Known>,
}

/// The semaphores, elections and discoveries in use, by their prefixes and keys.
#[derive(Default)]
struct Known {
    semaphores: BTreeMap<Prefix, Weak<Shared<Participant>>>,
    elections: BTreeMap<LockKey, Weak<Shared<Candidate>>>,
    discoveries: BTreeMap<LockKey, WeakDiscovery>,
    /// At this number of entries, those that nobody uses any more are removed.
    crowded_at: usize,
}

impl Known {
    fn add_semaphore(&mut self, prefix: Prefix, semaphore: &Arc<Shared<Participant>>) {
        self.make_room();
        self.semaphores.insert(prefix, Arc::downgrade(semaphore));
    }

    fn add_election(&mut self, key: LockKey, election: &Arc<Shared<Candidate>>) {
        self.make_room();
        self.elections.insert(key, Arc::downgrade(election));
    }

    fn add_discovery(&mut self, discovery: &Discovery) {
        self.make_room();
        let key = discovery.key().clone();
        self.discoveries.insert(key, discovery.downgrade());
    }

    fn make_room(&mut self) {
        let len = |it: &Self| it.semaphores.len() + it.elections.len() + it.discoveries.len();
        if len(self) >= self.crowded_at {
            self.semaphores.retain(|_, it| it.strong_count() > 0);
            self.elections.retain(|_, it| it.strong_count() > 0);
            self.discoveries.retain(|_, it| !it.is_gone());
            self.crowded_at = (len(self) * 2).max(FEW);
        }
    }
}

/// Fewer entries are not worth a cleanup.
const FEW: usize = 64;

impl Presence {
    pub(super) fn start(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        household: Household<Arc<dyn Dweller>>,
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let subject = Subject::of_client(transport.address());
        let audience = Arc::new(Audience::new(subject, defaults.observers.clone()));
        let house = Arc::new(House::new(transport, tokens, runtime, audience));
        owner::drive(&house, household)?;
        let inner = Inner {
            key: Arc::new(Key::new(house, defaults.farewell)),
            defaults,
            known: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The presence of a client that is used as this transport.
    pub(super) fn of(transport: &dyn Transport) -> Option<&Self> {
        transport.shared()?.downcast_ref()
    }

    pub(super) fn key(&self) -> &Arc<Key> {
        &self.inner.key
    }

    pub(super) fn house(&self) -> &Arc<House> {
        self.inner.key.house()
    }

    pub(super) fn defaults(&self) -> &Defaults {
        &self.inner.defaults
    }

    /// A participant with these settings: the existing one, if it fits.
    pub(super) fn participant(
        &self,
        settings: Settings,
        seed: u64,
        tokens: Tokens,
        company: Company,
    ) -> Result<Arc<Owner<Participant>>, Error> {
        let key = self.key();
        let Some(shares) = settings.shares() else {
            let tokens = tokens.or(key.house().tokens());
            let participant = Participant::new(settings, seed);
            return Owner::join(key, participant, None, tokens, company);
        };
        let mut known = self.known();
        let there = known.semaphores.get(settings.prefix());
        if let Some(there) = there.and_then(Weak::upgrade)
            && let Some(owner) = Owner::again(key, there, |it| *it.settings() == settings)
        {
            return Ok(owner);
        }
        let prefix = settings.prefix().clone();
        // Setting its token also sets that of the sessions.
        let tokens = key.house().tokens().clone();
        let participant = Participant::new(settings, seed);
        let owner = Owner::join(key, participant, Some(shares), tokens, company)?;
        known.add_semaphore(prefix, &owner.0);
        Ok(owner)
    }

    /// A candidate with these settings: the existing one, if it fits and need not be isolated.
    pub(super) fn candidate(
        &self,
        settings: ElectionSettings,
        seed: u64,
        tokens: Option<TokenProvider>,
        company: Company,
        is_isolated: bool,
    ) -> Result<Arc<Owner<Candidate>>, Error> {
        let is_own = is_isolated || tokens.is_some();
        let key = self.key();
        let mut known = self.known();
        let there = known.elections.get(settings.key()).filter(|_| !is_own);
        if let Some(there) = there.and_then(Weak::upgrade)
            && let Some(owner) = Owner::again(key, there, |it| *it.settings() == settings)
        {
            return Ok(owner);
        }
        let name = settings.key().clone();
        let shares = settings.shares();
        // Setting its token also sets that of the sessions.
        let tokens = if shares.is_some() {
            key.house().tokens().clone()
        } else {
            Tokens::of(tokens).or(key.house().tokens())
        };
        let candidate = Candidate::new(settings, seed);
        let owner = Owner::join(key, candidate, shares, tokens, company)?;
        if !is_own {
            known.add_election(name, &owner.0);
        }
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
        let mut known = self.known();
        let there = known.discoveries.get(&following.key);
        if let Some(there) = there.and_then(WeakDiscovery::upgrade)
            && there.is_of(&following, &scope)
            && !is_own
        {
            return there;
        }
        let house = self.house();
        let (transport, runtime) = (Arc::clone(house.transport()), Arc::clone(house.runtime()));
        let tokens = Tokens::of(tokens).or(house.tokens());
        let transport = tokens.over(transport);
        let home = self.home(&following.key, &scope).filter(|_| !is_own);
        let discovery = Discovery::new(following, scope, seed, transport, tokens, runtime, home);
        if !is_own {
            known.add_discovery(&discovery);
        }
        discovery
    }

    /// Where followers of this key are looked after.
    fn home(&self, key: &LockKey, scope: &Scope) -> Option<Home> {
        let defaults = self.defaults();
        let candidates = ElectionSettings::new(key.clone())
            .with_shared_sessions(defaults.session_options.clone())
            .with_scope(scope.clone());
        Home::of(self.house(), &candidates)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        let known = self.inner.known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }
}
