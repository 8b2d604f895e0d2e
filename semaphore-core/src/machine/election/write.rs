//! What a candidate writes, and how that becomes requests.
//!
//! | step | request |
//! |---|---|
//! | attempt, change of the value | `[check-index or check-not-exists, lock]` |
//! | resignation | `[check-index, unlock]` |
//! | resignation if somebody has given the key a value that is too large for a transaction | `PUT ?release` |
//!
//! A transaction only applies to the key that was read. So it never overwrites something newer, a
//! late copy of it changes nothing, and its answer has the indexes of the term.
//!
//! Sources: Consul's documentation of the KV endpoint (`acquire`, `release`, `Flags`) and of transactions (`lock`, `check-index`,
//! `check-not-exists`).

use crate::api::{
    CasKey, LOCK_FLAGS, Operation, ReleaseKey, Results, Txn, TxnFault, TxnFaultKind, TxnOutcome,
};
use crate::asked::Asked;
use crate::defect::{Defect, is_on};
use crate::election_key::ElectionKey;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::election::settings::ElectionSettings;

/// The outcome of an acquisition of the key.
#[derive(Debug)]
pub(super) enum Acquired {
    /// The key belongs to the session, with this state.
    Tied(ElectionKey),
    /// The key belongs to the session, as far as is known without its indexes.
    Untold,
    /// It was not applied: another session has the key, or its lock delay runs.
    Refused,
    /// It was not applied: the key has changed since it was read.
    Outdated,
}

/// Ties the key to the session with this value, if its last change is still at `base`, which is
/// zero if it did not exist.
pub(super) fn acquire(
    session: &SessionId,
    value: &[u8],
    base: Index,
    settings: &ElectionSettings,
) -> Request {
    let key = settings.key.as_str();
    let check = if base == Index::ZERO {
        Operation::CheckNotExists { key }
    } else {
        Operation::CheckIndex { key, index: base }
    };
    let lock = Operation::Lock {
        key,
        session,
        value,
        flags: LOCK_FLAGS,
    };
    let operations = &[check, lock];
    let operations = fenced(operations);
    Txn { operations }.request(settings.scope())
}

/// Acquires the key again, with another value.
pub(super) fn change(
    session: &SessionId,
    value: &[u8],
    base: Index,
    settings: &ElectionSettings,
) -> Request {
    if is_on(Defect::ValueWithoutAcquire) {
        let (key, index, flags) = (settings.key.as_str(), base, LOCK_FLAGS);
        return CasKey {
            key,
            index,
            value,
            flags,
        }
        .request(settings.scope());
    }
    acquire(session, value, base, settings)
}

/// The check is the first operation.
fn fenced<'o, 'a>(operations: &'o [Operation<'a>]) -> &'o [Operation<'a>] {
    if is_on(Defect::ElectionUnfenced) {
        return operations.get(1..).unwrap_or_default();
    }
    operations
}

/// Unties the key. It keeps its last seen value and flags.
pub(super) fn release(
    session: &SessionId,
    value: &[u8],
    flags: u64,
    settings: &ElectionSettings,
) -> Request {
    let key = settings.key.as_str();
    let release = ReleaseKey {
        key,
        session,
        value,
        flags,
    };
    release.request(settings.scope())
}

/// Unties the key as it was seen. `None` if somebody has given it a value that is too large for a
/// transaction.
pub(super) fn hand_on(
    session: &SessionId,
    value: &[u8],
    seen: &ElectionKey,
    settings: &ElectionSettings,
) -> Option<Request> {
    let key = settings.key.as_str();
    let check = Operation::CheckIndex {
        key,
        index: seen.modify_index,
    };
    let unlock = Operation::Unlock {
        key,
        session,
        value,
        flags: seen.flags,
    };
    let operations = &[check, unlock];
    let operations = fenced(operations);
    let request = Txn { operations }.request(settings.scope());
    Txn::fits(&request, operations.len()).then_some(request)
}

/// Reads the answer to [`hand_on`]: the key as it was written. `None` if that is unknown, or it was
/// not applied.
pub(super) fn handed_on(
    response: &Response,
    value: &[u8],
    settings: &ElectionSettings,
) -> Result<Option<ElectionKey>, RequestError> {
    let TxnOutcome::Applied(results) = Txn::parse(response)? else {
        return Ok(None);
    };
    let entry = results.entries.last();
    let Some(entry) = entry.filter(|entry| entry.key() == settings.key.as_str()) else {
        return Ok(None);
    };
    let mut shown = ElectionKey::new(entry)?;
    if shown.session.is_some() {
        return Ok(None);
    }
    shown.value = value.to_vec();
    Ok(Some(shown))
}

/// Reads the answer to [`acquire`].
pub(super) fn acquired(
    response: &Response,
    session: &SessionId,
    value: &[u8],
    settings: &ElectionSettings,
) -> Result<Acquired, RequestError> {
    match Txn::parse(response)? {
        TxnOutcome::Applied(results) => applied(&results, session, value, settings),
        TxnOutcome::RolledBack(faults) => rolled_back(faults).map_err(|error| error.of(response)),
    }
}

/// A write's result has no value. A key that the token may not read is left out completely.
fn applied(
    results: &Results<'_>,
    session: &SessionId,
    value: &[u8],
    settings: &ElectionSettings,
) -> Result<Acquired, RequestError> {
    let Some(entry) = results.entries.last() else {
        return Ok(Acquired::Untold);
    };
    let mut shown = ElectionKey::new(entry)?;
    if entry.key() != settings.key.as_str() || shown.session.as_ref() != Some(session) {
        return Err(RequestError::garbled(
            "a transaction's answer that shows another key",
        ));
    }
    shown.value = value.to_vec();
    Ok(Acquired::Tied(shown))
}

fn rolled_back(faults: Vec<TxnFault>) -> Result<Acquired, RequestError> {
    let is = |kind| faults.iter().any(|fault| fault.kind == kind);
    // That another session has the key, or its lock delay runs, says more than that it has changed.
    if is(TxnFaultKind::Held) || is(TxnFaultKind::Delayed) {
        return Ok(Acquired::Refused);
    }
    if is(TxnFaultKind::Check) && !is(TxnFaultKind::SessionGone) {
        return Ok(Acquired::Outdated);
    }
    let decides = |fault: &TxnFault| fault.kind != TxnFaultKind::Check;
    let fault = faults.into_iter().find(decides);
    Err(match fault {
        Some(fault) if fault.kind == TxnFaultKind::SessionGone => RequestError::InvalidSession {
            text: fault.text,
            asked: Asked::default(),
        },
        Some(fault) if fault.kind == TxnFaultKind::Denied => RequestError::Denied {
            text: fault.text,
            asked: Asked::default(),
        },
        Some(fault) => RequestError::Rejected {
            status: 409,
            text: fault.text,
            asked: Asked::default(),
        },
        None => RequestError::garbled("a transaction that failed for no reason"),
    })
}

#[cfg(test)]
mod tests {
    use crate::input::{LockKey, Value};
    use crate::machine::election::write::*;
    use crate::machine::fixture::{A, B, session};

    fn settings() -> ElectionSettings {
        ElectionSettings::new(LockKey::new("jobs/leader").unwrap())
    }

    fn answered(status: u16, body: &str) -> Result<Acquired, RequestError> {
        let response = Response::new(status, body);
        acquired(&response, &session(A), b"node-1", &settings())
    }

    #[test]
    fn a_transaction_names_the_key_as_it_was_read() {
        let body = |base| {
            let request = acquire(&session(A), b"node-1", Index(base), &settings());
            String::from_utf8_lossy(request.body()).into_owned()
        };
        assert!(body(0).starts_with(r#"[{"KV":{"Verb":"check-not-exists","Key":"jobs/leader"}}"#));
        assert!(body(7).contains(r#""Verb":"check-index","Key":"jobs/leader","Index":7"#));
        assert!(body(7).contains(r#""Verb":"lock""#));
        assert!(body(7).contains("3304740253564472344"));
    }

    #[test]
    fn the_largest_value_fits_into_an_acquisition() {
        let value = vec![b'x'; Value::MAX_LEN];
        let key = LockKey::new("x".repeat(6_000)).unwrap();
        let request = acquire(&session(A), &value, Index(7), &ElectionSettings::new(key));
        assert!(Txn::fits(&request, 2), "{}", request.body().len());
    }

    #[test]
    fn the_answer_shows_the_term() {
        let body = format!(
            r#"{{"Results":[{{"KV":{{"Key":"jobs/leader","LockIndex":3,"ModifyIndex":9,"CreateIndex":2,
                "Flags":3304740253564472344,"Session":"{A}","Value":null}}}}],"Errors":null}}"#
        );
        let Ok(Acquired::Tied(shown)) = answered(200, &body) else {
            panic!("not tied");
        };
        assert_eq!((shown.lock_index, shown.modify_index), (3, Index(9)));
        assert_eq!(shown.value, b"node-1");
        let other = answered(200, &body.replace(A, B));
        assert!(matches!(other, Err(RequestError::Garbled { .. })));
        let hidden = answered(200, r#"{"Results":[],"Errors":null}"#);
        assert!(matches!(hidden, Ok(Acquired::Untold)), "{hidden:?}");
    }

    #[test]
    fn a_rollback_says_what_stood_against_it() {
        let faults = |texts: &[&str]| {
            let faults: Vec<_> = texts
                .iter()
                .map(|it| format!(r#"{{"OpIndex":0,"What":"{it}"}}"#))
                .collect();
            let body = format!(r#"{{"Results":null,"Errors":[{}]}}"#, faults.join(","));
            answered(409, &body)
        };
        let held = "failed to lock key x, lock is already held";
        let delayed = "failed to lock key x due to lock delay";
        let moved = "failed index check for key x, current modify index 8 != 7";
        let gone = "failed to check index, key x doesn't exist";
        for refused in [&[held][..], &[delayed], &[moved, held]] {
            assert!(
                matches!(faults(refused), Ok(Acquired::Refused)),
                "{refused:?}"
            );
        }
        for outdated in [&[moved][..], &[gone], &["key x exists"]] {
            assert!(
                matches!(faults(outdated), Ok(Acquired::Outdated)),
                "{outdated:?}"
            );
        }
        let dead = faults(&["invalid session x"]);
        assert!(matches!(dead, Err(RequestError::InvalidSession { .. })));
        let denied = faults(&["something else"]);
        assert!(matches!(denied, Err(RequestError::Rejected { .. })));
    }
}
