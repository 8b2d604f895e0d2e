//! The settings of a candidate.

use std::sync::Arc;

use crate::input::{LockKey, Scope, SessionOptions, Value};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{Place, Shares};

/// Which key a candidate campaigns for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The election's key.
    pub(crate) key: LockKey,
    /// The source of the sessions, and what every request carries.
    pub(crate) session: SessionSettings,
    /// The leader's value in the key.
    pub(crate) value: Value,
}

impl ElectionSettings {
    /// An election for this key, with default sessions, no value and no token.
    pub fn new(key: LockKey) -> Self {
        let options = SessionOptions::default().for_election(&key);
        Self {
            key,
            session: SessionSettings::new(options),
            value: Value::default(),
        }
    }

    /// Sets how sessions are created. Their behavior is always `release`: the key must stay when
    /// its session ends, since its `LockIndex` counts the terms.
    #[must_use]
    pub fn with_session_options(mut self, options: SessionOptions) -> Self {
        self.session.options = options.for_election(&self.key);
        self.session.is_shared = false;
        self
    }

    /// The same, with sessions that it shares with other elections of its process. The program that
    /// drives it lends them: see [`MachineSet`](crate::sans_io::MachineSet).
    #[must_use]
    pub fn with_shared_sessions(mut self, options: SessionOptions) -> Self {
        self.session.options = options.for_elections();
        self.session.is_shared = true;
        self
    }

    /// Sets the key's value while this candidate leads.
    #[must_use]
    pub fn with_value(mut self, value: Value) -> Self {
        self.value = value;
        self
    }

    /// Sets token, datacenter, namespace, partition and consistency of every request.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.session.scope = scope;
        self
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// What every request carries.
    pub fn scope(&self) -> &Scope {
        &self.session.scope
    }

    /// What it shares with others of its process, for a [`MachineSet`](crate::sans_io::MachineSet).
    /// `None` if it shares nothing.
    pub fn shares(&self) -> Option<Shares> {
        self.session.shares_sessions().then(|| Shares {
            settings: self.session.clone(),
            place: self.place(),
        })
    }

    /// Where it uses each session once. No prefix of a semaphore begins with a slash.
    pub(super) fn place(&self) -> Place {
        Arc::from(format!("/{}", self.key))
    }
}
