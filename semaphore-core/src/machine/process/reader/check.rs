//! What a holder or waiter that is looked after with others wants to be told, and what it is told: see [`checks`](super::checks).

use core::iter;

use crate::api::Operation;
use crate::id::{Index, SessionId};
use crate::time::Instant;

/// What a machine wants to be told: that its record has changed, or that one of these keys has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub(in crate::machine) stance: Stance,
    /// The key of the record.
    pub(in crate::machine) record: String,
    /// Its index, as far as is known.
    pub(in crate::machine) index: Index,
    /// The contender keys that have to be there, each with its session: its own, and those of whom it waits for.
    pub(in crate::machine) keys: Vec<(String, SessionId)>,
    /// When it had that for the last time.
    pub(in crate::machine) seen_at: Instant,
}

/// What a machine does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Stance {
    /// It only holds.
    Holds,
    /// It waits behind so many others.
    Waits {
        /// How many they are.
        ahead: u32,
    },
}

/// What a machine is told of what is read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckNews {
    /// Polls on its own, or is looked after, while it only holds.
    Reads(Reads),
    /// The same while it waits.
    WaitingReads(Reads),
    /// The record still had this index.
    AsBefore(Index),
    /// The record has this index no more, or may have changed all the same.
    Changed(Index),
}

/// Who looks whether a record has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reads {
    /// Each machine for itself.
    #[default]
    Own,
    /// The process, for all of them.
    Shared,
}

impl Check {
    /// Who holds more has a poll to itself.
    pub(in crate::machine) const MOST_KEYS: usize = 16;

    /// How many wait ahead.
    pub(in crate::machine) fn ahead(&self) -> u32 {
        match self.stance {
            Stance::Holds => 0,
            Stance::Waits { ahead } => ahead,
        }
    }

    /// Which of the keys are asked for in this round. A waiter learns of its turn by the record; that somebody has died, it may learn
    /// a few rounds later.
    fn keys_of(&self, round: u32) -> &[(String, SessionId)] {
        if self.stance == Stance::Holds {
            return &self.keys;
        }
        let most = self.keys.len().div_ceil(ROUNDS).max(1);
        let parts = self.keys.len().div_ceil(most).max(1);
        let part = round as usize % parts;
        self.keys.chunks(most).nth(part).unwrap_or_default()
    }

    /// What a transaction asks for it in this round.
    pub(in crate::machine) fn operations(&self, round: u32) -> impl Iterator<Item = Operation<'_>> {
        let record = Operation::CheckIndex {
            key: &self.record,
            index: self.index,
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

    /// How many bytes its keys have.
    pub(in crate::machine) fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|(key, _)| key.len());
        self.record.len() + keys.sum::<usize>()
    }
}

/// Within so many rounds each key of a waiter is asked for.
const ROUNDS: usize = 5;
