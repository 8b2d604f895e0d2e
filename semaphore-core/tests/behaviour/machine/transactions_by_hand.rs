//! The transactions of a semaphore, sent one by one. The test reads their answers.

use semaphore_core::adapter::{Request, Response, Transport as _};
use semaphore_core::sans_io::Index;
use semaphore_core::sans_io::api::{
    Entry, Operation, Results, SEMAPHORE_FLAGS, Txn, TxnFaultKind, TxnOutcome,
};
use semaphore_core::{Prefix, RequestError, Scope};
use transport_mock::MockConsul;

use crate::support::stranger::Stranger;
use crate::support::*;

const LOCK: &str = "service/db/.lock";

fn prefix() -> Prefix {
    Prefix::new(PREFIX).expect("a prefix")
}

fn send(world: &MockConsul, request: Request) -> Response {
    let client = world.client("a");
    world.run(client.send(request)).expect("an answer")
}

fn commit(world: &MockConsul, operations: &[Operation<'_>]) -> Response {
    let request = Txn { operations }.request(&Scope::new());
    assert!(Txn::fits(&request, operations.len()));
    send(world, request)
}

#[track_caller]
fn applied(answer: &Response) -> Results<'_> {
    match Txn::parse(answer) {
        Ok(TxnOutcome::Applied(results)) => results,
        other => panic!("{other:?}"),
    }
}

/// The operations that failed, and the kind of each failure.
#[track_caller]
fn faults(answer: &Response) -> Vec<(usize, TxnFaultKind)> {
    match Txn::parse(answer) {
        Ok(TxnOutcome::RolledBack(faults)) => faults
            .into_iter()
            .map(|fault| (fault.operation, fault.kind))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn lock<'a>(key: &'a str, stranger: &'a Stranger) -> Operation<'a> {
    Operation::Lock {
        key,
        session: &stranger.session,
        value: b"node-1",
        flags: SEMAPHORE_FLAGS,
    }
}

fn claim(index: Index) -> Operation<'static> {
    Operation::Cas {
        key: LOCK,
        index,
        value: b"{}",
        flags: SEMAPHORE_FLAGS,
    }
}

/// Writes the first record, and returns its index.
fn found(world: &MockConsul) -> Index {
    let answer = commit(world, &[claim(Index::ZERO)]);
    applied(&answer).entries[0].modify_index()
}

fn is_there(world: &MockConsul, key: &str) -> bool {
    world.consul(|consul, _| consul.entry(key).is_some())
}

fn keys<'a>(entries: &'a [Entry<'_>]) -> Vec<&'a str> {
    entries.iter().map(Entry::key).collect()
}

#[test]
fn entering_and_reading_shows_the_own_key_among_the_others() {
    let world = MockConsul::new(1);
    let other = Stranger::enters(&world);
    found(&world);
    let own = Stranger::session(&world);
    let (key, prefix) = (own.key(), prefix());
    let operations = [lock(&key, &own), Operation::GetTree { prefix: &prefix }];
    let heads = operations.iter().filter(|o| o.returns_entry()).count();

    let answer = commit(&world, &operations);
    let (heads, tree) = applied(&answer).split(heads).expect("a head");
    assert_eq!(keys(&heads), [key.as_str()]);
    assert_eq!(heads[0].session(), Some(own.session.as_str()));
    assert_eq!(heads[0].flags(), SEMAPHORE_FLAGS);
    let mut all = [LOCK.to_owned(), key.clone(), other.key()];
    all.sort_unstable();
    assert_eq!(keys(&tree), all);
    let shown = tree.iter().find(|entry| entry.key() == key).expect("own");
    assert_eq!(shown.value().expect("base64"), b"node-1");
    assert_eq!(shown.modify_index(), heads[0].modify_index());
}

#[test]
fn entering_and_claiming_tells_the_new_index_of_both() {
    let world = MockConsul::new(1);
    let own = Stranger::session(&world);
    let key = own.key();
    let answer = commit(&world, &[lock(&key, &own), claim(Index::ZERO)]);
    let results = applied(&answer);
    assert_eq!(keys(&results.entries), [key.as_str(), LOCK]);
    let index = results.entries[1].modify_index();
    assert_eq!(results.entries[0].modify_index(), index);
    // The next write can use this index.
    applied(&commit(&world, &[claim(index)]));
}

#[test]
fn a_claim_depends_on_its_own_key_and_on_the_absence_of_others() {
    let world = MockConsul::new(1);
    let own = Stranger::enters(&world);
    let index = found(&world);
    let key = own.key();
    let operations = |session, dead| {
        [
            Operation::CheckSession { key: &key, session },
            Operation::CheckNotExists { key: dead },
            claim(index),
        ]
    };
    let gone = "service/db/dead";
    // Somebody holds the key, and the other key exists.
    let answer = commit(&world, &operations(None, LOCK));
    let check = TxnFaultKind::Check;
    assert_eq!(faults(&answer), [(0, check), (1, check)]);
    let answer = commit(&world, &operations(Some(&own.session), gone));
    assert_eq!(keys(&applied(&answer).entries), [key.as_str(), LOCK]);
}

#[test]
fn a_check_for_nobody_needs_a_key_that_nobody_holds() {
    let world = MockConsul::new(1);
    let check = |key| Operation::CheckSession { key, session: None };
    let missing = commit(&world, &[check(LOCK)]);
    assert_eq!(faults(&missing), [(0, TxnFaultKind::Check)]);
    found(&world);
    applied(&commit(&world, &[check(LOCK)]));
}

#[test]
fn releasing_takes_both_keys_at_once_and_says_the_records_index_only() {
    let world = MockConsul::new(1);
    let own = Stranger::enters(&world);
    let index = found(&world);
    let key = own.key();
    let answer = commit(&world, &[claim(index), Operation::Delete { key: &key }]);
    assert_eq!(keys(&applied(&answer).entries), [LOCK]);
    assert!(!is_there(&world, &key));
}

#[test]
fn a_stale_index_rolls_everything_back() {
    let world = MockConsul::new(1);
    let own = Stranger::session(&world);
    let key = own.key();
    let index = found(&world);
    let stale = Index(index.0 - 1);
    let operations = [
        lock(&key, &own),
        claim(stale),
        Operation::DeleteCas {
            key: LOCK,
            index: stale,
        },
    ];
    let answer = commit(&world, &operations);
    let kind = TxnFaultKind::Stale;
    assert_eq!(faults(&answer), [(1, kind), (2, kind)]);
    assert!(!is_there(&world, &key));
    let answer = commit(&world, &[Operation::DeleteCas { key: LOCK, index }]);
    assert!(applied(&answer).entries.is_empty());
    assert!(!is_there(&world, LOCK));
}

#[test]
fn a_dead_session_enters_nowhere() {
    let world = MockConsul::new(1);
    let own = Stranger::session(&world);
    let key = own.key();
    world.consul(|consul, now| consul.destroy_session(now, own.session.as_str()));
    let answer = commit(&world, &[lock(&key, &own), claim(Index::ZERO)]);
    assert_eq!(faults(&answer), [(0, TxnFaultKind::SessionGone)]);
    assert!(!is_there(&world, LOCK));
}

#[test]
fn a_held_key_and_one_in_its_lock_delay_are_told_apart() {
    let world = MockConsul::new(1);
    let (holder, own) = (Stranger::enters(&world), Stranger::session(&world));
    let key = holder.key();
    let answer = commit(&world, &[lock(&key, &own)]);
    assert_eq!(faults(&answer), [(0, TxnFaultKind::Held)]);
    world.consul(|consul, now| consul.destroy_session(now, holder.session.as_str()));
    let answer = commit(&world, &[lock(&key, &own)]);
    assert_eq!(faults(&answer), [(0, TxnFaultKind::Delayed)]);
}

#[test]
fn a_missing_permission_is_a_fault_of_each_write() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| consul.set_acl_default_deny());
    let prefix = prefix();
    let tree = Operation::GetTree { prefix: &prefix };
    let answer = commit(&world, &[claim(Index::ZERO), tree]);
    assert_eq!(faults(&answer), [(0, TxnFaultKind::Denied)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let world = MockConsul::new(1);
    let check = Operation::CheckNotExists { key: LOCK };
    applied(&commit(&world, &[check; Txn::MAX_OPERATIONS]));
    let value = vec![b'x'; Txn::MAX_BYTES * 3 / 4];
    let long = Operation::Cas {
        key: LOCK,
        index: Index::ZERO,
        value: &value,
        flags: 0,
    };
    for operations in [[check; Txn::MAX_OPERATIONS + 1].as_slice(), &[long]] {
        let request = Txn { operations }.request(&Scope::new());
        assert!(!Txn::fits(&request, operations.len()));
        let answer = send(&world, request);
        let error = Txn::parse(&answer).expect_err("refused");
        let is_refused = matches!(error, RequestError::Rejected { status: 413, .. });
        assert!(is_refused && error.was_not_applied(), "{error}");
    }
}
