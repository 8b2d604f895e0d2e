//! What a candidate is told once.

use std::sync::Arc;

use crate::api::Txn;
use crate::input::{LockKey, Scope, SessionOptions, Value};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::tenancy::pool::Shares;
use crate::machine::process::tenancy::settings::{SessionSettings, SessionSource};
use crate::machine::process::tenancy::tenure::Tenure;

/// Which key a candidate campaigns for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The key whose holder is the leader.
    pub(crate) key: LockKey,
    /// Where sessions come from, and what every request carries.
    pub(crate) session: SessionSettings,
    /// What the key shows of the leader.
    pub(crate) value: Value,
    /// How the steps become requests.
    pub(crate) encoding: Encoding,
}

impl ElectionSettings {
    /// An election for this key, with default sessions, no value and no token.
    pub fn new(key: LockKey) -> Self {
        let options = SessionOptions::default().for_election(&key);
        Self {
            key,
            session: SessionSettings::new(options),
            value: Value::default(),
            encoding: Encoding::default(),
        }
    }

    /// How sessions are made. Their behavior is always `release`: the key stays when its session
    /// ends, since its `LockIndex` counts the terms.
    #[must_use]
    pub fn with_session_options(mut self, options: SessionOptions) -> Self {
        self.session.source = SessionSource::Create(options.for_election(&self.key));
        self
    }

    /// The same, on sessions that it shares with other elections of its process. The program that drives it lends them: see
    /// [`Household`](crate::sans_io::Household).
    ///
    /// Where a write of the key can't be fenced, it has a separate session all the same: with [`Encoding::Requests`], and with
    /// a value that is too large for a transaction.
    #[must_use]
    pub fn with_shared_sessions(mut self, options: SessionOptions) -> Self {
        self.session.source = SessionSource::Shared(options.for_elections());
        self
    }

    /// What the key shows while this candidate leads.
    #[must_use]
    pub fn with_value(mut self, value: Value) -> Self {
        self.value = value;
        self
    }

    /// Token, datacenter, namespace, partition and consistency of every request.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.session.scope = scope;
        self
    }

    /// How the steps become requests. A value that makes a transaction larger than
    /// [`Txn::MAX_BYTES`](crate::sans_io::api::Txn::MAX_BYTES) is written by the guide's requests in any case.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// The key whose holder is the leader.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// What every request carries.
    pub fn scope(&self) -> &Scope {
        &self.session.scope
    }

    /// What it shares with others of its process, if it does: what a [`Household`](crate::sans_io::Household) has to know.
    pub fn shares(&self) -> Option<Shares> {
        self.session.shares_sessions().then(|| Shares {
            settings: self.session.clone(),
            // No prefix of a semaphore begins so.
            place: Arc::from(format!("/{}", self.key)),
        })
    }

    /// What the next candidacy stands on.
    pub(super) fn tenure(&self) -> Tenure {
        if self.encoding == Encoding::Transactions && self.fits_transaction() {
            Tenure::new(&self.session, self.encoding)
        } else {
            Tenure::separate(&self.session)
        }
    }

    /// Whether an acquisition is one transaction. It carries the value in base 64.
    fn fits_transaction(&self) -> bool {
        let value = self.value.as_bytes().len().div_ceil(3) * 4;
        value + 2 * self.key.as_str().len() + BESIDE_VALUE <= Txn::MAX_BYTES
    }
}

/// More than all else of a transaction that ties a key takes.
const BESIDE_VALUE: usize = 1_024;
