//! What is checked for a holder or waiter together with others, and the result: see
//! [`checks`](super::checks).

use core::iter;

use crate::api::Operation;
use crate::id::{Index, SessionId};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

/// A machine's request to be told when its record has changed, or one of these keys has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub(in crate::machine) stance: Stance,
    /// The key of the record.
    pub(in crate::machine) record: String,
    /// Its last known index; zero if it is missing.
    pub(in crate::machine) index: Index,
    /// The contender keys that must exist, each with its session: its own, and those of the waiters
    /// ahead.
    pub(in crate::machine) keys: Vec<(String, SessionId)>,
    /// When it last knew that.
    pub(in crate::machine) seen_at: Instant,
}

/// What the machine does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Stance {
    /// It only holds.
    Holds,
    /// It waits.
    Waits {
        /// How many are ahead.
        ahead: u32,
    },
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckNews {
    /// Whether it polls separately, or is checked with others, while it only holds.
    Reads(Reads),
    /// The same while it waits.
    WaitingReads(Reads),
    /// The record still had this index when this request was answered, which was sent at this time.
    AsBefore {
        /// The record's index.
        index: Index,
        /// When the request was sent.
        sent_at: Instant,
    },
    /// The record no longer has this index, or may have changed in spite of it.
    Changed(Index),
}

/// Who checks whether a record has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reads {
    /// Each machine with its own poll.
    #[default]
    Own,
    /// The process, for all of them.
    Shared,
}

impl Reads {
    /// Until the process says who may poll: many may begin at once.
    pub(in crate::machine) fn at_first(settings: &SessionSettings) -> Self {
        if settings.shares_sessions() {
            Self::Shared
        } else {
            Self::Own
        }
    }
}

impl Check {
    /// How many waiters are ahead.
    pub(in crate::machine) fn ahead(&self) -> u32 {
        match self.stance {
            Stance::Holds => 0,
            Stance::Waits { ahead } => ahead,
        }
    }

    /// The keys that are checked in this round. A waiter learns of its turn from the record; it may
    /// learn of a death a few rounds later.
    fn keys_of(&self, round: u32) -> &[(String, SessionId)] {
        if self.stance == Stance::Holds {
            return &self.keys;
        }
        let most = self.keys.len().div_ceil(ROUNDS).max(1);
        let parts = self.keys.len().div_ceil(most).max(1);
        let part = round as usize % parts;
        self.keys.chunks(most).nth(part).unwrap_or_default()
    }

    /// The operations of a transaction for it in this round.
    pub(in crate::machine) fn operations(&self, round: u32) -> impl Iterator<Item = Operation<'_>> {
        let key = &*self.record;
        let record = match self.index {
            Index::ZERO => Operation::CheckNotExists { key },
            index => Operation::CheckIndex { key, index },
        };
        let keys = self
            .keys_of(round)
            .iter()
            .map(|(key, session)| Operation::CheckSession {
                key,
                session: Some(session),
            });
        iter::once(record).chain(keys)
    }

    /// The number of bytes in its keys.
    pub(in crate::machine) fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|(key, _)| key.len());
        self.record.len() + keys.sum::<usize>()
    }
}

/// Each key of a waiter is checked within this number of rounds.
const ROUNDS: usize = 5;
