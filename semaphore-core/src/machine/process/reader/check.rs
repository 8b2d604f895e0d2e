//! What a holder that is looked after with others wants to be told, and what it is told: see [`checks`](super::checks).

use core::iter;

use crate::api::Operation;
use crate::id::{Index, SessionId};
use crate::time::Instant;

/// What a holder wants to be told: that its record has changed, or that its key has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The key of the record.
    pub(in crate::machine) record: String,
    /// Its index, as far as is known.
    pub(in crate::machine) index: Index,
    /// Its contender keys, each with its session.
    pub(in crate::machine) keys: Vec<(String, SessionId)>,
    /// When it had that for the last time.
    pub(in crate::machine) seen_at: Instant,
}

/// What a machine is told of what is read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckNews {
    /// Polls on its own, or is looked after.
    Reads(Reads),
    /// The record still had this index.
    AsBefore(Index),
    /// The record has this index no more, or may have changed all the same.
    Changed(Index),
}

/// Who looks whether a record has changed, while one only holds.
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

    /// What a transaction asks for it.
    pub(in crate::machine) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let record = Operation::CheckIndex {
            key: &self.record,
            index: self.index,
        };
        let keys = self
            .keys
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
