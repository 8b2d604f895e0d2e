//! Terms: what names one, when one has begun, and what ends it.
//!
//! Sources: Consul's documentation of the KV endpoint (`LockIndex` counts successful acquisitions)
//! and of sequencers. That a write without `acquire` resets it was seen on 1.8.7.

use crate::election_key::{ElectionKey, TermIndexes};
use crate::error::Lost;
use crate::id::SessionId;
use crate::subject::Subject;

/// Whether somebody has acquired or deleted the key between two views (`consul lock` deletes it
/// after its turn). A write without `acquire` does not count.
pub(super) fn was_acquired_since(
    former: Option<&ElectionKey>,
    shown: Option<&ElectionKey>,
) -> bool {
    let Some(shown) = shown else {
        return former.is_some();
    };
    let is_same_key = |former: &&ElectionKey| former.create_index == shown.create_index;
    let acquired_before = former.filter(is_same_key).map_or(0, |key| key.lock_index);
    shown.session.is_some() || shown.lock_index > acquired_before
}

/// Why the leader of this term no longer leads. `None` while it does.
pub(super) fn loss(
    shown: Option<&ElectionKey>,
    session: &SessionId,
    term: TermIndexes,
) -> Option<Lost> {
    let (session, on) = (session.clone(), Subject::default());
    let Some(shown) = shown else {
        return Some(Lost::KeyDeleted { session, on });
    };
    match &shown.session {
        None => Some(Lost::KeyReleased { session, on }),
        Some(by) if *by != session => Some(Lost::KeyTaken {
            session,
            by: by.clone(),
            on,
        }),
        // If its indexes are the same, the term was one of a key that had already been overwritten.
        Some(_) if shown.foreign_flags().is_some() => Some(Lost::KeyOverwritten { session, on }),
        Some(_) if TermIndexes::of(shown) == term => None,
        Some(_) if shown.create_index != term.create_index => {
            Some(Lost::KeyDeleted { session, on })
        }
        // It was acquired again in our name: in between it belonged to nobody, or to somebody else.
        Some(_) if shown.lock_index > term.lock_index => Some(Lost::KeyReleased { session, on }),
        Some(_) => Some(Lost::KeyOverwritten { session, on }),
    }
}

#[cfg(test)]
mod tests {
    use crate::api::LOCK_FLAGS;
    use crate::id::Index;
    use crate::machine::election::term::*;
    use crate::machine::fixture::{A, B, session};

    fn shown(session: Option<&str>, create_index: u64, lock_index: u64) -> ElectionKey {
        ElectionKey {
            session: session.map(|id| SessionId::new(id).unwrap()),
            create_index: Index(create_index),
            modify_index: Index(50),
            lock_index,
            flags: LOCK_FLAGS,
            value: b"node-1".to_vec(),
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
        let term = TermIndexes::of(&shown(None, 10, 3));
        let loss = |shown: Option<ElectionKey>| loss(shown.as_ref(), &session(A), term);
        assert!(loss(Some(shown(Some(A), 10, 3))).is_none());
        let of_something_else = ElectionKey {
            flags: 7,
            ..shown(Some(A), 10, 3)
        };
        for (found, expected) in [
            (None, "deleted"),
            (Some(shown(None, 10, 3)), "released"),
            (Some(shown(Some(B), 10, 4)), "taken"),
            (Some(shown(Some(A), 20, 1)), "deleted"),
            (Some(shown(Some(A), 10, 4)), "released"),
            (Some(shown(Some(A), 10, 0)), "wrote the key"),
            (Some(of_something_else), "wrote the key"),
        ] {
            let told = loss(found).map(|it| it.to_string()).unwrap_or_default();
            assert!(told.contains(expected), "{told}");
        }
    }
}
