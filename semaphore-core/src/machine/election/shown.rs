//! The election's key as an answer shows it, and what that means for whom.
//!
//! | flags | written last | |
//! |---|---|---|
//! | a lock's | in any way | an election's, Go's `api.Lock` and `consul lock` included |
//! | 0 | through `acquire` or `release` | an election's as in the guide, whose `curl` sends no flags |
//! | 0 | without them, and neither a session nor a value is there | nobody's: it may be taken |
//! | 0 | without them, and either is there | a conflict: somebody stores something else here |
//! | others, such as a semaphore's | in any way | a conflict |
//!
//! How it was written last is told by `LockIndex`: `acquire` raises it above 0, where it stays until a write
//! without `acquire` or `release` resets it. The guide's contenders for a semaphore send no flags either:
//! theirs is the key that ends with the session it is tied to. Go refuses every key without a lock's flags,
//! also an empty one.

use crate::api::{Entry, LOCK_FLAGS};
use crate::error::{Conflict, Lost, RequestError};
use crate::id::{Index, SessionId};
use crate::input::LockKey;
use crate::leader;

/// The key, where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) session: Option<SessionId>,
    pub(super) create_index: Index,
    pub(super) modify_index: Index,
    pub(super) lock_index: u64,
    pub(super) flags: u64,
    pub(super) value: Vec<u8>,
}

/// What names a term as long as everybody writes the key through `acquire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TermIndexes {
    pub(super) create_index: Index,
    pub(super) lock_index: u64,
}

impl Shown {
    /// Reads an entry.
    pub(super) fn new(entry: &Entry<'_>) -> Result<Self, RequestError> {
        let session = entry.session().map(SessionId::read);
        if session == Some(None) {
            return Err(RequestError::Garbled {
                what: "a session that is no UUID",
                source: None,
            });
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

    /// The flags that make it somebody else's.
    pub(super) fn conflict(&self) -> Option<u64> {
        let is_empty = self.session.is_none() && self.value.is_empty();
        let may_be_taken = match self.flags {
            LOCK_FLAGS => true,
            0 => is_empty || self.lock_index > 0,
            _ => false,
        };
        (!may_be_taken).then_some(self.flags)
    }

    /// What makes it somebody else's, as what is found at this key.
    pub(super) fn conflict_at(&self, key: &LockKey) -> Option<Conflict> {
        if leader::is_contender_key(key, self.flags, self.session.as_ref()) {
            return Some(Conflict::Semaphore);
        }
        self.conflict().map(leader::conflict_of)
    }

    pub(super) fn term(&self) -> TermIndexes {
        TermIndexes {
            create_index: self.create_index,
            lock_index: self.lock_index,
        }
    }
}

/// Whether somebody has acquired the key between one sighting and the next, or deleted it: `consul lock` does so
/// after its turn. A write without `acquire` is no such thing.
pub(super) fn was_acquired_since(former: Option<&Shown>, shown: Option<&Shown>) -> bool {
    let Some(shown) = shown else {
        return former.is_some();
    };
    let is_same_key = |former: &&Shown| former.create_index == shown.create_index;
    let acquired_before = former.filter(is_same_key).map_or(0, |key| key.lock_index);
    shown.session.is_some() || shown.lock_index > acquired_before
}

/// Why whoever has led this term does so no more; none while it does.
pub(super) fn loss(shown: Option<&Shown>, session: &SessionId, term: TermIndexes) -> Option<Lost> {
    let session = session.clone();
    let Some(shown) = shown else {
        return Some(Lost::KeyDeleted { session });
    };
    match &shown.session {
        None => Some(Lost::KeyReleased { session }),
        Some(by) if *by != session => Some(Lost::KeyTaken {
            session,
            by: by.clone(),
        }),
        // Where the indexes of a term are no others: it was one of a key that had been overwritten before.
        Some(_) if shown.conflict().is_some() => Some(Lost::KeyOverwritten { session }),
        Some(_) if shown.term() == term => None,
        Some(_) if shown.create_index != term.create_index => Some(Lost::KeyDeleted { session }),
        // Acquired anew in our name: in between it was nobody's, or anybody's.
        Some(_) if shown.lock_index > term.lock_index => Some(Lost::KeyReleased { session }),
        Some(_) => Some(Lost::KeyOverwritten { session }),
    }
}

#[cfg(test)]
mod tests {
    use crate::api::SEMAPHORE_FLAGS;
    use crate::machine::election::shown::*;
    use crate::machine::fixture::{A, B, session};

    fn shown(session: Option<&str>, create_index: u64, lock_index: u64) -> Shown {
        Shown {
            session: session.map(|id| SessionId::new(id).unwrap()),
            create_index: Index(create_index),
            modify_index: Index(50),
            lock_index,
            flags: LOCK_FLAGS,
            value: b"node-1".to_vec(),
        }
    }

    #[test]
    fn whose_key_it_is_is_told_by_its_flags() {
        let of = |flags, lock_index, session: Option<&str>, value: &[u8]| {
            let value = value.to_vec();
            let key = Shown {
                flags,
                value,
                ..shown(session, 1, lock_index)
            };
            key.conflict()
        };
        for lock_index in [0, 1] {
            let of = |flags, session, value| of(flags, lock_index, session, value);
            assert_eq!(of(LOCK_FLAGS, Some(A), b"x"), None);
            assert_eq!(of(LOCK_FLAGS, None, b""), None);
            assert_eq!(of(0, None, b""), None);
            let if_overwritten = (lock_index == 0).then_some(0);
            assert_eq!(of(0, Some(A), b""), if_overwritten);
            assert_eq!(of(0, None, b"x"), if_overwritten);
            assert_eq!(of(SEMAPHORE_FLAGS, None, b""), Some(SEMAPHORE_FLAGS));
            assert_eq!(of(7, Some(A), b"x"), Some(7));
        }
    }

    #[test]
    fn an_acquisition_between_two_sightings_is_told_by_the_session_or_the_lock_index() {
        let free = |create_index, lock_index| Some(shown(None, create_index, lock_index));
        let held = Some(shown(Some(A), 10, 3));
        for (former, now, expected) in [
            (None, None, false),
            (None, free(10, 0), false),
            (None, free(10, 1), true),
            (None, held.clone(), true),
            (free(10, 3), None, true),
            (free(10, 3), free(10, 3), false),
            (free(10, 3), free(10, 4), true),
            (free(10, 3), free(20, 1), true),
            (free(10, 3), free(10, 0), false),
            (free(10, 3), held.clone(), true),
        ] {
            let told = was_acquired_since(former.as_ref(), now.as_ref());
            assert_eq!(told, expected, "{former:?} {now:?}");
        }
    }

    #[test]
    fn a_term_ends_with_whatever_says_that_it_is_not_ours() {
        let term = shown(None, 10, 3).term();
        let loss = |shown: Option<Shown>| loss(shown.as_ref(), &session(A), term);
        assert!(loss(Some(shown(Some(A), 10, 3))).is_none());
        let of_something_else = Shown {
            flags: 7,
            ..shown(Some(A), 10, 3)
        };
        for (found, expected) in [
            (None, "deleted"),
            (Some(shown(None, 10, 3)), "released"),
            (Some(shown(Some(B), 10, 4)), "taken"),
            (Some(shown(Some(A), 20, 1)), "deleted"),
            (Some(shown(Some(A), 10, 4)), "released"),
            (Some(shown(Some(A), 10, 0)), "overwritten"),
            (Some(of_something_else), "overwritten"),
        ] {
            let told = loss(found).map(|it| it.to_string()).unwrap_or_default();
            assert!(told.contains(expected), "{told}");
        }
    }
}
