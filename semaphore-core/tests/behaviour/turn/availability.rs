//! How many slots are free, as far as the handle knows without asking.

use transport_mock::MockConsul;

use crate::support::*;

/// The permits and the limit that a handle knows of.
fn known(semaphore: &semaphore_core::Semaphore) -> Option<(u32, u32)> {
    let available = semaphore.available_permits()?;
    Some((available.permits, available.limit))
}

#[test]
fn nothing_is_known_while_nobody_waits_or_holds_here() {
    let world = MockConsul::new(1);
    let a = semaphore(&world, "a", 2);
    let b = semaphore(&world, "b", 2);
    assert_eq!(known(&a), None);
    let permit = world.run(a.acquire()).expect("a free slot");
    assert_eq!(known(&a), Some((1, 2)));
    assert_eq!(known(&a.clone()), Some((1, 2)));
    assert_eq!(known(&b), None);
    world.run(permit.release()).expect("released");
    world.advance(secs(60));
    assert_eq!(known(&a), None);
    assert_nothing_left(&world);
}

#[test]
fn whoever_holds_or_waits_learns_what_others_take_and_give_back() {
    let world = MockConsul::new(1);
    let a = semaphore(&world, "a", 3);
    let b = semaphore(&world, "b", 3);
    let _permit = world.run(a.acquire()).expect("a free slot");
    world.advance(secs(1));
    let others = world.run(b.acquire_many(2)).expect("free slots");
    world.advance(secs(1));
    assert_eq!(known(&a), Some((0, 3)));
    assert_eq!(known(&b), Some((0, 3)));
    let waiter = semaphore(&world, "c", 3);
    let waiting = {
        let waiter = waiter.clone();
        world.start(async move { waiter.acquire_many(3).await })
    };
    world.advance(secs(1));
    assert_eq!(known(&waiter), Some((0, 3)));
    world.run(others.release()).expect("released");
    world.advance(secs(1));
    assert_eq!(known(&a), Some((2, 3)));
    assert_eq!(known(&waiter), Some((2, 3)));
    drop(waiting);
}

#[test]
fn what_is_known_grows_old_while_consul_can_not_be_asked() {
    let world = MockConsul::new(1);
    let a = semaphore(&world, "a", 2);
    let permit = world.run(a.acquire()).expect("a free slot");
    for _ in 0..10 {
        world.advance(secs(30));
        let age = a.available_permits().expect("it is known").age;
        assert!(age < secs(20), "{age:?}");
    }
    world.partition("a");
    let before = a.available_permits().expect("it is known").age;
    world.advance(secs(9));
    let after = a.available_permits().expect("it is known").age;
    assert_eq!(after, before + secs(9));
    assert!(permit.is_held());
}

#[test]
fn asking_for_what_is_known_sends_nothing() {
    let world = MockConsul::new(1);
    let a = semaphore(&world, "a", 2);
    assert_eq!(known(&a), None);
    assert_eq!(world.stats().total_requests(), 0);
    let _permit = world.run(a.acquire()).expect("a free slot");
    let before = world.stats().total_requests();
    for _ in 0..10 {
        assert_eq!(known(&a), Some((1, 2)));
    }
    assert_eq!(world.stats().total_requests(), before);
}

#[test]
fn the_limit_is_the_records() {
    let world = MockConsul::new(1);
    let a = semaphore(&world, "a", 2);
    let _permit = world.run(a.acquire()).expect("a free slot");
    world.run(a.resize(5)).expect("resized");
    world.advance(secs(1));
    assert_eq!(known(&a), Some((4, 5)));
    let adopting = builder(2).adopt_limit().connect(world.client("b"));
    let adopting = adopting.expect("valid settings");
    let _other = world.run(adopting.acquire()).expect("a free slot");
    assert_eq!(known(&adopting), Some((3, 5)));
    // No holder is removed, so there are more holders than the limit allows.
    world.run(a.resize(1)).expect("resized");
    world.advance(secs(1));
    assert_eq!(known(&a), Some((0, 1)));
}
