//! What all handles of a [`Client`](crate::Client) have in common.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::authorized::Tokens;
use super::house::{Dweller, House};
use super::observer::{Company, Observers};
use super::owner::{self, Key, Owner};
use super::shared::Shared;
use crate::error::Error;
use crate::input::{Prefix, Scope, SessionOptions, Value};
use crate::machine::{Encoding, Household, Participant, Settings};
use crate::runtime::Runtime;
use crate::transport::Transport;

/// A process, as far as it goes by one client: who is in its house, and what they are told unless they are told otherwise.
#[derive(Clone)]
pub(super) struct Presence {
    inner: Arc<Inner>,
}

/// What is taken where a builder is not told.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    pub(super) scope: Scope,
    pub(super) value: Value,
    pub(super) encoding: Encoding,
    pub(super) session_options: SessionOptions,
    pub(super) farewell: Duration,
    pub(super) observers: Observers,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            value: Value::default(),
            encoding: Encoding::default(),
            session_options: SessionOptions::default(),
            farewell: FAREWELL,
            observers: Observers::default(),
        }
    }
}

/// How long the end of a program may be put off, unless [`Builder::farewell`](crate::Builder::farewell) says otherwise.
const FAREWELL: Duration = Duration::from_secs(1);

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

impl Presence {
    pub(super) fn start(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        household: Household<Arc<dyn Dweller>>,
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let house = Arc::new(House::new(
            transport,
            tokens,
            runtime,
            defaults.observers.clone(),
        ));
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

    /// That of the client that this transport is.
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

    /// A participant with these settings, which is the one that there is, if it fits.
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
        let mut known = self
            .inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let there = known.semaphores.get(settings.prefix());
        if let Some(there) = there.and_then(Weak::upgrade)
            && let Some(owner) = Owner::again(key, there, |it| *it.settings() == settings)
        {
            return Ok(owner);
        }
        let prefix = settings.prefix().clone();
        // Whoever sets the token of one sets that of the sessions, too.
        let tokens = key.house().tokens().clone();
        let participant = Participant::new(settings, seed);
        let owner = Owner::join(key, participant, Some(shares), tokens, company)?;
        known.add(prefix, &owner.0);
        Ok(owner)
    }
}
