//! What does not fit into a transaction is refused before anything is written.

use semaphore_core::sans_io::api::Txn;
use semaphore_core::sans_io::{Method, Record, Value};
use semaphore_core::{Error, InvalidInput};
use transport_mock::MockConsul;

use crate::support::spy::Spy;
use crate::support::steps::{
    claims, deletes_key, is_transaction, operations, withdraws, writes_record,
};
use crate::support::stranger::operate;
use crate::support::*;

/// Asserts that an agent with Consul's default limits accepts every request.
#[track_caller]
fn assert_all_fit(spy: &Spy) {
    for request in spy.requests().iter().filter(|it| is_transaction(it)) {
        assert!(Txn::fits(request, operations(request).len()));
    }
}

#[test]
fn the_largest_value_is_shown() {
    for size in [0, 1, Value::MAX_OF_CONTENDER] {
        let world = MockConsul::new(1);
        let spy = Spy::on(&world);
        let value = vec![b'x'; size];
        let semaphore = connect(builder(1).value(value.clone()), &world.client("a"));
        for _ in 0..2 {
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            let [key] = contender_keys(&world).try_into().expect("one contender");
            let found = world.consul(|consul, _| consul.entry(&key).map(|it| it.value().to_vec()));
            assert!(found == Some(value.clone()), "{size} bytes");
            world.run(permit.release()).expect("released");
        }
        assert_all_fit(&spy);
        assert_nothing_left(&world);
    }
}

#[test]
fn who_finds_a_record_that_takes_nobody_more_is_told_before_anything_is_written() {
    let world = MockConsul::new(1);
    let mut record = Record::new(5_000);
    for number in 0..13_000 {
        record.add(&format!("{number:08x}-0000-0000-0000-000000000000"));
        if number > 11_800 && record.encode().len() > 524_288 - 44 {
            break;
        }
    }
    let body = String::from_utf8(record.encode()).expect("text");
    let target = format!("/v1/kv/{PREFIX}/.lock?flags={}", record.flags());
    operate(&world, Method::Put, &target, &body);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 5_000);
    let Err(Error::InvalidInput { input: error, .. }) = world.run(semaphore.acquire()) else {
        unreachable!("nobody more fits");
    };
    let is_it = matches!(error, InvalidInput::RecordTooLarge { max: 524_288, .. });
    assert!(is_it, "{error:?}");
    assert!(error.to_string().contains("split the semaphore"), "{error}");
    assert_eq!(spy.count(writes_record), 0);
}

#[test]
fn as_many_permits_as_fit_are_claimed_and_given_back_in_one_request() {
    // A claim needs two operations per permit, a release one.
    for (permits, operations_of_claim) in [(1, 1 + 2), (31, 1 + 2 * 31)] {
        let world = MockConsul::new(1);
        let spy = Spy::on(&world);
        let semaphore = semaphore(&world, "a", permits);
        let permit = world.run(semaphore.acquire_many(permits)).expect("slots");
        assert_eq!(holders(&world).len(), permits as usize);
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);

        assert_eq!(spy.count(claims), 1, "{permits}");
        let claim = spy.requests().into_iter().find(claims).expect("a claim");
        assert_eq!(operations(&claim).len(), operations_of_claim, "{permits}");
        assert_eq!(spy.count(withdraws), 1, "{permits}");
        assert_eq!(spy.count(deletes_key), 1, "{permits}");
        assert_all_fit(&spy);
    }
}

#[test]
fn more_permits_at_once_are_refused() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 100);
    for wanted in [32, 100] {
        let refused = world.run(semaphore.acquire_many(wanted)).map(drop);
        let refused = refused.expect_err("refused");
        let Error::InvalidInput { input, .. } = &refused else {
            unreachable!("{refused:?}");
        };
        let max = 31;
        assert_eq!(*input, InvalidInput::PermitsOverTransaction { wanted, max });
        assert!(
            refused.to_string().contains("ask for 31 at most"),
            "{refused}"
        );
    }
    assert_eq!(world.stats().total_requests(), 0);
}

/// A record that others have written is only read, however large it is.
#[test]
fn a_larger_record_of_others_is_read() {
    let world = MockConsul::new(1);
    let record = Record::new(20_000);
    let body = String::from_utf8(record.encode()).expect("text");
    let target = format!("/v1/kv/{PREFIX}/.lock?flags={}", record.flags());
    operate(&world, Method::Put, &target, &body);
    let semaphore = connect(builder(1).adopt_limit(), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    let refused = world.run(connect(builder(1), &world.client("b")).acquire());
    let refused = refused.map(drop).expect_err("another limit");
    let is_told = matches!(refused, Error::LimitConflict { theirs: 20_000, .. });
    assert!(is_told, "{refused:?}");
}

#[test]
fn more_who_leave_at_once_than_fit_leave_nothing() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 80);
    let permits: Vec<_> = (0..80)
        .map(|_| world.run(semaphore.acquire()).expect("a free slot"))
        .collect();
    assert_eq!(holders(&world).len(), 80);
    drop(permits);
    world.advance(secs(5));
    assert_nothing_left(&world);
    assert_all_fit(&spy);
}
