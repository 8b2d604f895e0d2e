//! An election's key in one answer, and whose key it is. Candidates, followers and other readers
//! use the same rule.
//!
//! | flags | written last | |
//! |---|---|---|
//! | a lock's | in any way | an election's, Go's `api.Lock` and `consul lock` included, but for the row below |
//! | 0 | through `acquire` or `release` | an election's as in the guide, whose `curl` sends no flags |
//! | 0 | without them, and neither a session nor a value is there | nobody's: it may be taken |
//! | 0 | without them, and a value is there | a conflict: somebody stores something else here |
//! | either | without them, while a session has it | a conflict: the term of that session is over, and no other has begun |
//! | others, such as a semaphore's | in any way | a conflict |
//!
//! `LockIndex` shows how the key was last written. `acquire` raises it above 0, and a write without
//! `acquire` or `release` resets it to 0. The guide's contenders for a semaphore also use no flags:
//! their key ends with the session that it is tied to, and their record has no session. Go refuses
//! every key without a lock's flags, even an empty one.

use crate::api::{Entry, LOCK_FLAGS};
use crate::defect::{Defect, is_on};
use crate::error::{Conflict, RequestError};
use crate::id::{Index, SessionId};
use crate::input::LockKey;
use crate::record::Record;
use crate::view::ContenderFlags;

/// The key, if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElectionKey {
    pub(crate) session: Option<SessionId>,
    pub(crate) create_index: Index,
    pub(crate) modify_index: Index,
    pub(crate) lock_index: u64,
    pub(crate) flags: u64,
    pub(crate) value: Vec<u8>,
}

impl ElectionKey {
    /// Reads an entry.
    pub(crate) fn new(entry: &Entry<'_>) -> Result<Self, RequestError> {
        let session = entry.session().map(SessionId::read);
        if session == Some(None) {
            return Err(RequestError::garbled("a session that is no UUID"));
        }
        Ok(Self {
            session: session.flatten(),
            create_index: entry.create_index(),
            modify_index: entry.modify_index(),
            lock_index: entry.lock_index(),
            flags: entry.flags(),
            value: entry.value()?,
        })
    }

    /// The flags, if they belong to something else.
    pub(crate) fn foreign_flags(&self) -> Option<u64> {
        let is_empty = self.session.is_none() && self.value.is_empty();
        let may_be_taken = match self.flags {
            LOCK_FLAGS => true,
            0 => is_empty || self.lock_index > 0,
            _ => false,
        };
        (!may_be_taken).then_some(self.flags)
    }

    /// The reason why the key belongs to something else, if it does.
    pub(crate) fn conflict_at(&self, key: &LockKey) -> Option<Conflict> {
        if self.is_contender_key(key) {
            return Some(Conflict::Semaphore);
        }
        if self.is_overwritten() {
            return Some(Conflict::Overwritten);
        }
        let flags = self.foreign_flags()?;
        let is_semaphores = ContenderFlags::decode(flags).is_some() || self.is_record();
        Some(if is_semaphores {
            Conflict::Semaphore
        } else {
            Conflict::ElectionFlags { flags }
        })
    }

    /// Whether somebody wrote it without `acquire` while a session has it. That resets `LockIndex`
    /// and keeps the session (seen on 1.8.7 and 1.23). The leader with that key no longer leads.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.session.is_some()
            && self.lock_index == 0
            && matches!(self.flags, 0 | LOCK_FLAGS)
            && !is_on(Defect::ForeignKeyAnnounced)
    }

    /// Whether a session may acquire it.
    pub(crate) fn is_free(&self) -> bool {
        self.session.is_none() && self.foreign_flags().is_none()
    }

    /// Whether it is a contender key of a semaphore as in the guide: without flags, with the
    /// session as its last segment.
    fn is_contender_key(&self, key: &LockKey) -> bool {
        let session = self.session.as_ref();
        self.flags == 0 && session.is_some() && key.last_session().as_ref() == session
    }

    /// Whether it is a semaphore's record in the guide's dialect, which never has a session.
    fn is_record(&self) -> bool {
        self.flags == 0 && self.session.is_none() && Record::decode(&self.value, 0).is_ok()
    }
}

/// Identifies a term while everybody writes the key with `acquire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermIndexes {
    pub(crate) create_index: Index,
    pub(crate) lock_index: u64,
}

impl TermIndexes {
    pub(crate) fn of(key: &ElectionKey) -> Self {
        Self {
            create_index: key.create_index,
            lock_index: key.lock_index,
        }
    }

    /// Whether the key's terms were counted again since, for example after `consul lock`, which
    /// deletes the key. A session that has led could get the same sequencer a second time.
    pub(crate) fn is_counted_again(self, shown: Option<&ElectionKey>) -> bool {
        shown.is_none_or(|key| {
            key.create_index != self.create_index || key.lock_index < self.lock_index
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::SEMAPHORE_FLAGS;

    const SESSION: &str = "4ca8e74b-6350-7587-addf-a18084928f3c";
    const RECORD: &[u8] = br#"{"Limit":1,"Holders":[]}"#;

    fn shown(flags: u64, lock_index: u64, session: Option<&str>, value: &[u8]) -> ElectionKey {
        ElectionKey {
            session: session.map(|id| SessionId::new(id).unwrap()),
            create_index: Index(1),
            modify_index: Index(50),
            lock_index,
            flags,
            value: value.to_vec(),
        }
    }

    fn conflict(
        flags: u64,
        lock_index: u64,
        session: Option<&str>,
        value: &[u8],
    ) -> Option<Conflict> {
        let key = LockKey::new("service/db/leader").unwrap();
        shown(flags, lock_index, session, value).conflict_at(&key)
    }

    #[test]
    fn whose_key_it_is_is_told_by_its_flags_and_how_it_was_written_last() {
        let foreign = |flags| Some(Conflict::ElectionFlags { flags });
        for lock_index in [0, 1] {
            let of = |flags, session, value| conflict(flags, lock_index, session, value);
            let is_overwritten = lock_index == 0;
            let overwritten = is_overwritten.then_some(Conflict::Overwritten);
            assert_eq!(of(LOCK_FLAGS, Some(SESSION), b"x"), overwritten);
            assert_eq!(of(LOCK_FLAGS, None, b""), None);
            assert_eq!(of(0, None, b""), None);
            assert_eq!(of(0, Some(SESSION), b""), overwritten);
            assert_eq!(of(0, None, b"x"), foreign(0).filter(|_| is_overwritten));
            assert_eq!(of(7, Some(SESSION), b"x"), foreign(7));
            assert_eq!(of(SEMAPHORE_FLAGS, None, b""), Some(Conflict::Semaphore));
        }
    }

    #[test]
    fn a_record_of_the_guide_is_a_semaphores_unless_it_is_what_a_leader_said() {
        assert_eq!(conflict(0, 0, None, RECORD), Some(Conflict::Semaphore));
        assert_eq!(conflict(0, 1, None, RECORD), None);
        assert_eq!(conflict(0, 1, Some(SESSION), RECORD), None);
    }

    #[test]
    fn a_contender_key_of_the_guide_ends_with_its_session_and_has_no_flags() {
        let is_one = |key: &str, flags, session| {
            let key = LockKey::new(key).unwrap();
            shown(flags, 1, session, b"").conflict_at(&key).is_some()
        };
        let key = format!("service/db/{SESSION}");
        assert!(is_one(&key, 0, Some(SESSION)));
        assert!(!is_one(&key, LOCK_FLAGS, Some(SESSION)));
        assert!(!is_one(&key, 0, None));
        assert!(!is_one("service/db", 0, None));
        assert!(!is_one("service/db", 0, Some(SESSION)));
    }

    #[test]
    fn terms_are_counted_again_where_the_key_is_made_again_or_overwritten() {
        let of = |create_index, lock_index| ElectionKey {
            create_index: Index(create_index),
            ..shown(LOCK_FLAGS, lock_index, Some(SESSION), b"x")
        };
        let led = TermIndexes::of(&of(10, 3));
        assert!(!led.is_counted_again(Some(&of(10, 3))));
        assert!(!led.is_counted_again(Some(&of(10, 4))));
        assert!(led.is_counted_again(Some(&of(10, 0))));
        assert!(led.is_counted_again(Some(&of(20, 3))));
        assert!(led.is_counted_again(None));
    }
}
