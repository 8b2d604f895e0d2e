//! Several permits at once: all or none.

use semaphore_core::adapter::Runtime as _;
use semaphore_core::{Error, InvalidInput};
use transport_mock::MockConsul;

use crate::support::*;

#[test]
fn several_slots_are_acquired_and_given_back_together() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let permit = world.run(semaphore.acquire_many(3)).expect("free slots");
    assert_eq!(permit.permits(), 3);
    assert!(permit.is_held());
    assert_eq!(permit.sequencers().len(), 3);
    assert_eq!(holders(&world).len(), 3);
    assert_eq!(contender_keys(&world).len(), 3);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn more_than_the_participant_queues_ahead_are_acquired_together() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 40);
    let permit = world.run(semaphore.acquire_many(31)).expect("free slots");
    assert_eq!(holders(&world).len(), 31);
    world.advance(secs(60));
    assert!(permit.is_held(), "all are renewed");
    assert!(world.stats().peak_open <= 25, "{:?}", world.stats());
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn however_many_they_are_they_are_given_back_at_once() {
    for permits in [1, 2, 30, 31] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 200);
        for _ in 0..3 {
            let permit = world.run(semaphore.acquire_many(permits));
            let permit = permit.expect("free slots");
            let began = world.now();
            world.run(permit.release()).expect("released");
            let took = world.now().saturating_since(began);
            assert!(took <= millis(100), "{permits}: {took:?}");
        }
        assert_nothing_left(&world);
    }
}

#[test]
fn none_are_held_while_others_are_waited_for() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 3));
    let permit = world.run(hosts[0].acquire_many(2)).expect("free slots");
    let ours = holders(&world);
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire_many(2).await });
    for _ in 0..300 {
        world.advance(millis(100));
        assert_eq!(holders(&world), ours);
    }
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("free slots");
    assert_eq!(holders(&world).len(), 2);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn two_hosts_that_want_two_of_two_each_take_turns() {
    take_turns(2);
}

#[test]
fn two_hosts_that_want_two_of_three_each_take_turns() {
    take_turns(3);
}

fn take_turns(limit: u32) {
    for seed in 0..20 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(20));
        let tasks: Vec<_> = ["a", "b"]
            .map(|host| {
                let client = world.client(host);
                let semaphore = connect(builder(limit), &client);
                world.start(async move {
                    for _ in 0..5 {
                        let permit = semaphore.acquire_many(2).await.expect("slots");
                        client.sleep(millis(50)).await;
                        assert!(permit.is_held());
                        permit.release().await.expect("released");
                    }
                })
            })
            .into();
        for task in tasks {
            world.run(task);
        }
        assert!(world.now().since_origin() < secs(30), "{}", world.now());
        assert_nothing_left(&world);
    }
}

#[test]
fn more_than_the_limit_can_never_be_served() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    match world.run(semaphore.acquire_many(4)) {
        Err(Error::InvalidInput {
            input:
                InvalidInput::PermitsOverLimit {
                    wanted: 4,
                    limit: 3,
                },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(world.stats().total_requests(), 0);
}

#[test]
fn more_than_an_adopted_limit_can_never_be_served() {
    let world = MockConsul::new(1);
    let other = semaphore(&world, "a", 2);
    let adopter = connect(builder(5).adopt_limit(), &world.client("b"));
    let permit = world.run(other.acquire()).expect("a free slot");
    match world.run(adopter.acquire_many(3)) {
        Err(Error::InvalidInput {
            input:
                InvalidInput::PermitsOverLimit {
                    wanted: 3,
                    limit: 2,
                },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_number_beyond_the_adopted_limit_is_refused_without_a_session_for_each() {
    let world = MockConsul::new(1);
    let adopter = connect(builder(3).adopt_limit(), &world.client("a"));
    match world.run(adopter.acquire_many(31)) {
        Err(Error::InvalidInput {
            input: InvalidInput::PermitsOverLimit { limit: 3, .. },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert!(world.stats().total_requests() < 100, "{:?}", world.stats());
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_wide_request_is_not_overtaken_by_tasks_of_the_same_client() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let client = world.client("a");
    let first = world.run(semaphore.acquire()).expect("a free slot");
    let second = world.run(semaphore.acquire()).expect("a free slot");
    let wide = semaphore.clone();
    let mut wide = world.start(async move { wide.acquire_many(2).await });
    world.advance(secs(1));
    let narrow: Vec<_> = (0..4)
        .map(|_| {
            let (semaphore, client) = (semaphore.clone(), client.clone());
            world.start(async move {
                let permit = semaphore.acquire().await.expect("a slot");
                client.sleep(secs(10)).await;
                permit.release().await.expect("released");
            })
        })
        .collect();
    drop(first);
    world.advance(secs(20));
    assert!(wide.try_take().is_none());
    assert_eq!(holders(&world).len(), 1, "a narrow one slipped in");
    drop(second);
    world.advance(secs(1));
    let permit = wide.try_take().expect("its turn").expect("slots");
    world.run(permit.release()).expect("released");
    for task in narrow {
        world.run(task);
    }
    world.advance(secs(1));
    assert_nothing_left(&world);
}
