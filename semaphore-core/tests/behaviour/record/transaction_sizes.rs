//! What an agent would refuse for its size is written with separate requests.

use semaphore_core::sans_io::api::Txn;
use transport_mock::MockConsul;

use crate::support::spy::Spy;
use crate::support::steps::{
    Is, claims, deletes_key, enters, is_transaction, operations, withdraws,
};
use crate::support::*;

/// Whether all that are this step are transactions; `None` where some are and some are not.
#[track_caller]
fn are_transactions(spy: &Spy, is: Is) -> Option<bool> {
    let requests = spy.requests();
    let mut steps = requests.iter().filter(|it| is(it)).map(is_transaction);
    let first = steps.next().expect("a request");
    steps.all(|it| it == first).then_some(first)
}

/// No agent that takes as much as Consul does by default refuses what was sent.
#[track_caller]
fn assert_all_fit(spy: &Spy) {
    for request in spy.requests().iter().filter(|it| is_transaction(it)) {
        assert!(Txn::fits(request, operations(request).len()));
    }
}

#[test]
fn a_value_that_is_too_large_is_written_with_separate_requests() {
    // As base64, the largest values don't fit.
    for (size, fits) in [
        (0, true),
        (300_000, true),
        (400_000, false),
        (524_288, false),
    ] {
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
        assert_eq!(are_transactions(&spy, enters), Some(fits), "{size}");
        assert_eq!(are_transactions(&spy, claims), Some(fits), "{size}");
        // It names no value.
        assert_eq!(are_transactions(&spy, withdraws), Some(true), "{size}");
        assert_all_fit(&spy);
        assert_nothing_left(&world);
    }
}

#[test]
fn a_waiter_with_too_large_a_value_gets_its_turn() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| {
        let builder = builder(1).value(vec![b'x'; 500_000]);
        connect(builder, &world.client(host))
    });
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("its turn");
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn as_many_permits_as_fit_are_claimed_and_given_back_in_one_request() {
    // Two operations for each permit that is claimed, one for each that is given back. Of 62 the keys are deleted in the same
    // request, those of others one by one.
    for (permits, is_claimed_at_once, deletions) in [
        (1, true, 1),
        (31, true, 1),
        (32, false, 1),
        (62, false, 1),
        (63, false, 1 + 1),
        (100, false, 1 + 38),
    ] {
        let world = MockConsul::new(1);
        let spy = Spy::on(&world);
        let semaphore = semaphore(&world, "a", permits);
        let permit = world.run(semaphore.acquire_many(permits)).expect("slots");
        assert_eq!(holders(&world).len(), permits as usize);
        assert!(permit.is_held());
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);

        assert_eq!(spy.count(claims), 1, "{permits}");
        assert_eq!(are_transactions(&spy, claims), Some(is_claimed_at_once));
        assert_eq!(spy.count(withdraws), 1, "{permits}");
        assert_eq!(are_transactions(&spy, withdraws), Some(true));
        assert_eq!(spy.count(deletes_key), deletions, "{permits}");
        assert_all_fit(&spy);
    }
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
