//! Changes of a semaphore's record, or of an election's key.

use std::collections::BTreeSet;
use std::fmt;

use judge::Record;
use semaphore_core::sans_io::Instant;
use semaphore_core::sans_io::api::LOCK_FLAGS;

use super::{Who, short};
use crate::plan::Plan;

/// A write or deletion of a record or an election's key.
#[derive(Clone, Debug)]
pub struct Change {
    /// The number of the prefix.
    pub prefix: usize,
    /// The writer.
    pub by: Who,
    /// When its writer sent it.
    pub sent_at: Option<Instant>,
    /// Whether the write could only be applied to the state that it was made for: it used
    /// check-and-set, or the session that holds the key.
    pub is_bound: bool,
    /// The new holders.
    pub added: Vec<String>,
    /// The earlier holders that were admitted again, for another acquisition.
    pub passed: Vec<String>,
    /// The earlier holders of which that may be true.
    pub may_have_passed: Vec<String>,
    /// The holders that were removed.
    pub removed: Vec<Removed>,
    /// The waiters of other owners that stand before the last new holder in the queue.
    pub ahead: Vec<Waiting>,
    /// How many of others wait, wherever they stand.
    pub waiting: usize,
    /// The state before and after.
    pub of: Subject,
}

/// The kind of the change, with the state before and after.
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

/// The content of a record's key: nothing, a record, or foreign data.
pub type Found = Option<Result<Record, Foreign>>;

/// A value that is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// The content of an election's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The session that holds it: the leader's.
    pub session: Option<String>,
    /// The value.
    pub value: Vec<u8>,
    /// The flags, which show whose kind of key it is.
    pub flags: u64,
    /// How often it was acquired.
    pub lock_index: u64,
}

/// What a key shows of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownTerm {
    /// How often the key was acquired.
    pub lock_index: u64,
    /// The flags, which show whose kind of key it is.
    pub flags: u64,
}

impl KeyState {
    /// The session that holds it, and what it shows of that one's term.
    fn shown_term(&self) -> Option<(&str, ShownTerm)> {
        let term = ShownTerm {
            lock_index: self.lock_index,
            flags: self.flags,
        };
        Some((self.session.as_deref()?, term))
    }

    /// Whether the key can elect a leader: it is an election's, or unused.
    pub fn is_elections(&self) -> bool {
        let is_blank = self.session.is_none() && self.value.is_empty();
        match self.flags {
            LOCK_FLAGS => true,
            // As in the guide, unless it was last written without `acquire` and `release`.
            0 => is_blank || self.lock_index > 0,
            _ => false,
        }
    }
}

/// A live contender that waits: its key is tied, and the record does not name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its session.
    pub session: String,
    /// The creator of the session.
    pub owner: Who,
    /// When its contender key was created.
    pub since: Instant,
}

/// A holder that a write removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The holder.
    pub session: String,
    /// Whether its session lives, and has its contender key where it needs one.
    pub is_alive: bool,
    /// The creator of the session.
    pub owner: Option<Who>,
}

impl Change {
    /// The new holders.
    pub fn holders(&self) -> BTreeSet<String> {
        match &self.of {
            Subject::Record { after, .. } => holders(after),
            Subject::Key { after, .. } => leader(after.as_ref()).into_iter().collect(),
        }
    }

    /// The session that holds the election's key after it, and what the key shows of that one's term.
    pub fn shown_term(&self) -> Option<(&str, ShownTerm)> {
        match &self.of {
            Subject::Key { after, .. } => after.as_ref()?.shown_term(),
            Subject::Record { .. } => None,
        }
    }

    /// What the election's key showed before it of this session's term.
    pub fn term_before(&self, session: &str) -> Option<ShownTerm> {
        let Subject::Key { before, .. } = &self.of else {
            return None;
        };
        let (holder, term) = before.as_ref()?.shown_term()?;
        (holder == session).then_some(term)
    }

    /// The sessions from which this change took something, if an operator made it: those that it
    /// removed, and the one whose key no longer shows its term.
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

/// The session that holds a key.
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
