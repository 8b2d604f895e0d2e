//! Changes of the key that says who holds: a semaphore's record, or an election's key.

use std::collections::BTreeSet;
use std::fmt;

use semaphore_core::Conflict;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::sans_io::{Instant, Record};

use super::{Who, short};
use crate::plan::Plan;

/// A write or a deletion of what says who holds.
#[derive(Clone, Debug)]
pub struct Change {
    /// Where.
    pub prefix: usize,
    /// Whose write it was.
    pub by: Who,
    /// When its writer sent it.
    pub sent_at: Option<Instant>,
    /// Whether the write could be applied to nothing but what it was made for: by check-and-set, or
    /// through the session that the key is tied to.
    pub is_bound: bool,
    /// Who is a holder now and was none before.
    pub added: Vec<String>,
    /// Who was a holder before and was admitted again, for another acquisition.
    pub passed: Vec<String>,
    /// Who was a holder before and is none now.
    pub removed: Vec<Removed>,
    /// What it was and what it is.
    pub of: Subject,
}

/// What it was that changed, before and after.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Subject {
    /// The record of a semaphore.
    Record { before: Found, after: Found },
    /// The key of an election.
    Key {
        before: Option<KeyState>,
        after: Option<KeyState>,
    },
}

/// A record as it stands: none, one, or something else.
pub type Found = Option<Result<Record, Conflict>>;

/// An election's key as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Whom it is tied to: the leader.
    pub session: Option<String>,
    /// What it says.
    pub value: Vec<u8>,
    /// Whose kind of key it is.
    pub flags: u64,
    /// How often it was acquired.
    pub lock_index: u64,
}

impl KeyState {
    /// Whether a leader may be elected by it: it is an election's, or nobody's.
    pub fn is_elections(&self) -> bool {
        let is_blank = self.session.is_none() && self.value.is_empty();
        match self.flags {
            LOCK_FLAGS => true,
            // As in the guide, unless it was written without `acquire` and `release` since.
            0 => is_blank || self.lock_index > 0,
            _ => false,
        }
    }
}

/// A holder that a write took out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The holder.
    pub session: String,
    /// Whether its session lives, and has its contender key where it needs one.
    pub is_alive: bool,
    /// Who made the session.
    pub owner: Option<Who>,
}

impl Change {
    /// Who holds from now on.
    pub fn holders(&self) -> BTreeSet<String> {
        match &self.of {
            Subject::Record { after, .. } => holders(after),
            Subject::Key { after, .. } => leader(after.as_ref()).into_iter().collect(),
        }
    }

    /// Of whom an administrator who did this took something away: those that it removed, and those that it
    /// left in a key that says no more whose term it is.
    pub fn taken_from(&self) -> impl Iterator<Item = &str> {
        let overwritten = match &self.of {
            Subject::Key {
                before: Some(before),
                after: Some(after),
            } if before.session == after.session
                && (before.lock_index, before.flags) != (after.lock_index, after.flags) =>
            {
                after.session.as_deref()
            }
            _ => None,
        };
        let removed = self.removed.iter().map(|it| it.session.as_str());
        removed.chain(overwritten)
    }
}

/// The holders of a record.
pub(crate) fn holders(found: &Found) -> BTreeSet<String> {
    match found {
        Some(Ok(record)) => record.holders().map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    }
}

/// Whose session a key is tied to.
pub(crate) fn leader(key: Option<&KeyState>) -> Option<String> {
    key.and_then(|key| key.session.clone())
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, by) = (Plan::prefix(self.prefix), self.by);
        match &self.of {
            Subject::Record { before, after } => {
                let (before, after) = (ShownRecord(before), ShownRecord(after));
                write!(f, "record of {prefix}: {before} -> {after}, by {by}")
            }
            Subject::Key { before, after } => {
                let (before, after) = (ShownKey(before.as_ref()), ShownKey(after.as_ref()));
                write!(f, "key of {prefix}: {before} -> {after}, by {by}")
            }
        }
    }
}

/// A record in a few words.
struct ShownRecord<'a>(&'a Found);

impl fmt::Display for ShownRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(Err(_)) => f.write_str("garbled"),
            Some(Ok(record)) => {
                write!(f, "{}/{} [", record.holders().len(), record.limit())?;
                for (place, holder) in record.holders().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    write!(f, "{space}{}", short(holder))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A key in a few words.
struct ShownKey<'a>(Option<&'a KeyState>);

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(key) = self.0 else {
            return f.write_str("none");
        };
        let value = String::from_utf8_lossy(&key.value);
        let kind = if key.is_elections() { "" } else { "garbled " };
        write!(f, "{kind}{value:?} #{}", key.lock_index)?;
        match &key.session {
            Some(session) => write!(f, " [{}]", short(session)),
            None => f.write_str(" []"),
        }
    }
}
