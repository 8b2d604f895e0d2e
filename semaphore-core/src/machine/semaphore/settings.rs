//! The settings of a participant, and the times that follow from them.

use std::sync::Arc;

use crate::input::InvalidInput;
use crate::input::{Prefix, Scope, SessionOptions, Value};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{Place, Shares};

/// What a participant contends for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The prefix of the semaphore's keys.
    pub(crate) prefix: Prefix,
    /// The number of slots, at least one.
    pub(crate) limit: u32,
    /// What to do with another limit in the record.
    pub(crate) other_limit: OtherLimit,
    pub(crate) lost_early: LostEarly,
    /// The source of the sessions, and what every request carries.
    pub(crate) session: SessionSettings,
    /// The value of the contender keys.
    pub(crate) value: Value,
}

impl Settings {
    /// The most slots. A record of as many holders leaves half of a transaction to what is written
    /// with it.
    pub const MAX_LIMIT: u32 = 5_000;

    /// A semaphore of `limit` slots under `prefix`, with default sessions, no value and no token.
    ///
    /// # Errors
    /// [`InvalidInput::LimitZero`], [`InvalidInput::LimitTooLarge`].
    pub fn new(prefix: Prefix, limit: u32) -> Result<Self, InvalidInput> {
        let max = Self::MAX_LIMIT;
        match limit {
            0 => return Err(InvalidInput::LimitZero),
            _ if limit > max => return Err(InvalidInput::LimitTooLarge { limit, max }),
            _ => {}
        }
        let options = SessionOptions::default().for_prefix(&prefix);
        Ok(Self {
            prefix,
            limit,
            other_limit: OtherLimit::Refused,
            lost_early: LostEarly::Freed,
            session: SessionSettings::new(options),
            value: Value::default(),
        })
    }

    /// Adopts another limit from the record instead of treating it as a conflict.
    #[must_use]
    pub fn with_limit_adopted(mut self, adopt: bool) -> Self {
        self.other_limit = OtherLimit::new(adopt, self.other_limit.is_replaced_if_idle());
        self
    }

    /// Writes this limit into a record with another limit, if nobody holds a slot or waits for one.
    /// If somebody holds, the other limit is a conflict, or is [adopted](Self::with_limit_adopted).
    #[must_use]
    pub fn with_limit_replaced_if_idle(mut self, replace: bool) -> Self {
        self.other_limit = OtherLimit::new(self.other_limit.is_adopted(), replace);
        self
    }

    /// If a slot is lost early, because its session has ended or its key was taken, it stays taken
    /// until it is given back. Others may have it before that when the lock delay is over. Without
    /// this they may have it as soon as the loss is noticed here.
    #[must_use]
    pub fn with_lost_kept(mut self, keep: bool) -> Self {
        self.lost_early = if keep {
            LostEarly::Kept
        } else {
            LostEarly::Freed
        };
        self
    }

    /// Sets how sessions are created.
    #[must_use]
    pub fn with_session_options(mut self, options: SessionOptions) -> Self {
        self.session.options = options.for_prefix(&self.prefix);
        self.session.is_shared = false;
        self
    }

    /// The same, with sessions that it shares with others of its process. The program that drives
    /// it lends them: see [`MachineSet`](crate::sans_io::MachineSet).
    #[must_use]
    pub fn with_shared_sessions(mut self, options: SessionOptions) -> Self {
        self.session.options = options.for_process();
        self.session.is_shared = true;
        self
    }

    /// Sets the value of the contender keys, which everybody can read.
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

    /// The prefix of the semaphore's keys.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The number of slots.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// What every request carries.
    pub fn scope(&self) -> &Scope {
        &self.session.scope
    }
}

/// What happens to a slot whose session has ended, or whose key was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostEarly {
    /// It is free as soon as the loss is noticed here.
    Freed,
    /// It stays taken until it is given back.
    Kept,
}

impl LostEarly {
    pub(crate) fn is_kept(self) -> bool {
        self == Self::Kept
    }
}

/// What to do with another limit in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherLimit {
    /// It is a conflict.
    Refused,
    /// We adopt it.
    Adopted,
    /// Ours replaces it if nobody holds; otherwise it is a conflict.
    ReplacedIfIdle,
    /// Ours replaces it if nobody holds; otherwise we adopt it.
    ReplacedIfIdleElseAdopted,
}

impl OtherLimit {
    fn new(is_adopted: bool, is_replaced_if_idle: bool) -> Self {
        match (is_adopted, is_replaced_if_idle) {
            (false, false) => Self::Refused,
            (true, false) => Self::Adopted,
            (false, true) => Self::ReplacedIfIdle,
            (true, true) => Self::ReplacedIfIdleElseAdopted,
        }
    }

    pub(crate) fn is_adopted(self) -> bool {
        matches!(self, Self::Adopted | Self::ReplacedIfIdleElseAdopted)
    }

    pub(crate) fn is_replaced_if_idle(self) -> bool {
        matches!(self, Self::ReplacedIfIdle | Self::ReplacedIfIdleElseAdopted)
    }
}

impl Settings {
    /// What it shares with others of its process, for a [`MachineSet`](crate::sans_io::MachineSet).
    /// `None` if it shares nothing.
    pub fn shares(&self) -> Option<Shares> {
        self.shares_sessions().then(|| Shares {
            settings: self.session.clone(),
            place: self.place(),
        })
    }

    /// Where it uses each session once.
    pub(super) fn place(&self) -> Place {
        Arc::from(self.prefix.as_str())
    }

    /// Whether others of the process use the same sessions.
    pub(crate) fn shares_sessions(&self) -> bool {
        self.session.shares_sessions()
    }
}
