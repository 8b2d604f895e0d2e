//! What a participant is told once, and the times that follow from it.

use core::time::Duration;
use std::sync::Arc;

use crate::id::SessionId;
use crate::input::InvalidInput;
use crate::input::{Behavior, Prefix, Scope, SessionOptions, Value};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::tenancy::pool::Shares;
use crate::machine::process::tenancy::settings::{SessionSettings, SessionSource};
use crate::machine::semaphore::listing::Listing;

/// What a participant contends for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the semaphore lives.
    pub(crate) prefix: Prefix,
    /// How many slots it has, at least one.
    pub(crate) limit: u32,
    /// What becomes of another limit in the record.
    pub(crate) other_limit: OtherLimit,
    pub(crate) lost_early: LostEarly,
    /// Where sessions come from, and what every request carries.
    pub(crate) session: SessionSettings,
    /// What contender keys show.
    pub(crate) value: Value,
    /// How the steps become requests.
    pub(crate) encoding: Encoding,
    /// What a read of the whole prefix costs.
    pub(in crate::machine) listing: Listing,
    /// How many contenders are not yet a crowd.
    pub(crate) crowd: usize,
}

impl Settings {
    /// A semaphore of `limit` slots under `prefix`, with default sessions, no value and no token.
    ///
    /// # Errors
    /// [`InvalidInput::LimitZero`].
    pub fn new(prefix: Prefix, limit: u32) -> Result<Self, InvalidInput> {
        if limit == 0 {
            return Err(InvalidInput::LimitZero);
        }
        let options = SessionOptions::default().for_prefix(&prefix);
        Ok(Self {
            prefix,
            limit,
            other_limit: OtherLimit::Refused,
            lost_early: LostEarly::Freed,
            session: SessionSettings::new(options),
            value: Value::default(),
            encoding: Encoding::default(),
            listing: Listing::default(),
            crowd: CROWD,
        })
    }

    /// Takes another limit that is found in the record over, instead of refusing it as a conflict.
    #[must_use]
    pub fn with_limit_adopted(mut self, adopt: bool) -> Self {
        self.other_limit = OtherLimit::new(adopt, self.other_limit.is_replaced_if_idle());
        self
    }

    /// Writes this limit into a record that has another one, where nobody holds a slot or waits for one. Where somebody holds,
    /// the other limit is a conflict, or is [taken over](Self::with_limit_adopted).
    #[must_use]
    pub fn with_limit_replaced_if_idle(mut self, replace: bool) -> Self {
        self.other_limit = OtherLimit::new(self.other_limit.is_adopted(), replace);
        self
    }

    /// Leaves a slot taken that is lost early, since its session has ended or its key was taken, until it is given back. Others may have
    /// it before that when the lock delay is over; otherwise as soon as its loss is noticed here.
    #[must_use]
    pub fn with_lost_kept(mut self, keep: bool) -> Self {
        self.lost_early = if keep {
            LostEarly::Kept
        } else {
            LostEarly::Freed
        };
        self
    }

    /// How sessions are made.
    #[must_use]
    pub fn with_session_options(mut self, options: SessionOptions) -> Self {
        self.session.source = SessionSource::Create(options.for_prefix(&self.prefix));
        self
    }

    /// Contends with a session that the caller made, and will destroy. It carries one slot, so one
    /// acquisition at a time; it is renewed here while it contends, but never destroyed.
    ///
    /// Make it with `LockDelay` as long as its TTL, 60 s at most: belief lasts no longer than either, since for
    /// so long nobody takes its place if it ends early. Consul's default is 15 s. A lock delay below 10 s is taken for a
    /// choice, with what it risks: see [`SessionOptions::with_lock_delay`].
    ///
    /// A write that was given up while there was no leader may be applied later. After such a write the session carries no
    /// other acquisition for 25 s after the end of one, while its contender key is looked for; the release does not wait.
    #[must_use]
    pub fn with_session(mut self, session: SessionId) -> Self {
        self.session.source = SessionSource::Callers(session);
        self
    }

    /// The same, on sessions that it shares with others of its process. The program that drives it lends them: see
    /// [`Household`](crate::sans_io::Household).
    #[must_use]
    pub fn with_shared_sessions(mut self, options: SessionOptions) -> Self {
        self.session.source = SessionSource::Shared(options.for_process());
        self
    }

    /// What the contender keys show to all who read them.
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

    /// How the steps of the protocol become requests.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Up to how many contenders, holders included, each participant watches the whole prefix. Beyond
    /// that, a waiter watches only the one ahead of it, and the cost of a handoff stops growing. The
    /// default is 8 for each contender of this participant. Where turns follow each other within 100 ms, two are a crowd. With
    /// [`Encoding::Requests`] the whole prefix is always watched.
    #[must_use]
    pub fn with_crowd(mut self, crowd: usize) -> Self {
        self.crowd = crowd;
        self
    }

    /// Where the semaphore lives.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// How many slots it has.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// What every request carries.
    pub fn scope(&self) -> &Scope {
        &self.session.scope
    }
}

/// What becomes of a slot whose session has ended, or whose key was taken.
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

/// What becomes of another limit that the record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherLimit {
    /// It is a conflict.
    Refused,
    /// It is ours, too.
    Adopted,
    /// Ours takes its place where nobody holds; otherwise it is a conflict.
    ReplacedIfIdle,
    /// Ours takes its place where nobody holds; otherwise it is ours, too.
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

/// How many contenders each participant watches as a whole by default.
const CROWD: usize = 8;

impl Settings {
    /// What it shares with others of its process, if it does: what a [`Household`](crate::sans_io::Household) has to know.
    pub fn shares(&self) -> Option<Shares> {
        self.shares_sessions().then(|| Shares {
            settings: self.session.clone(),
            place: Arc::from(self.prefix.as_str()),
        })
    }

    /// Whether sessions are ours to destroy.
    pub(crate) fn owns_sessions(&self) -> bool {
        self.session.owns_sessions()
    }

    /// Whether contenders and record are read without what else lies below the prefix. The key of a caller's session is known by its
    /// flags, whichever session has it, and only a list shows those.
    pub(in crate::machine) fn reads_by_name(&self) -> bool {
        // Who shows much contends with others that do.
        let is_dear = self.listing == Listing::Dear || self.value.is_large();
        is_dear && self.encoding == Encoding::Transactions && self.owns_sessions()
    }

    /// Whether others of the process stand on the same sessions.
    pub(crate) fn shares_sessions(&self) -> bool {
        self.session.shares_sessions()
    }

    /// The session of the caller's that it contends with, if it does.
    pub(crate) fn callers_session(&self) -> Option<&SessionId> {
        match &self.session.source {
            SessionSource::Callers(session) => Some(session),
            SessionSource::Create(_) | SessionSource::Shared(_) => None,
        }
    }

    /// Whether contender keys vanish with their session.
    pub(crate) fn deletes_keys(&self) -> bool {
        let made = self.session.options();
        made.is_some_and(|options| options.behavior == Behavior::Delete)
    }

    /// How long a short request may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.session.request_timeout()
    }

    /// The longest wait between two attempts of one request.
    pub(crate) fn retry_cap(&self) -> Duration {
        self.session.retry_cap()
    }
}
