//! A poll was lost in silence. It is given up as soon as other requests show that there was a
//! silence.

use transport_mock::MockConsul;

use crate::support::*;

#[test]
fn a_waiter_looks_again_when_a_cut_is_over() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let held = world.run(holder.acquire()).expect("a free slot");
    let waiter = semaphore(&world, "b", 1);
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));

    // Long enough for a renewal to fail. The next one is waited for twice as long, 6 s: its end tells.
    world.partition("b");
    world.run(held.release()).expect("released");
    world.advance(secs(8));
    world.heal("b");

    let healed_at = world.now();
    let _permit = world.run(waiting).expect("the slot is free");
    let took = world.now().saturating_since(healed_at);
    assert!(took < secs(6), "{took:?}\n{}", world.trace());
}

#[test]
fn the_connection_of_a_poll_that_is_given_up_is_freed() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let held = world.run(holder.acquire()).expect("a free slot");
    let waiter = semaphore(&world, "b", 1);
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    world.partition("b");
    world.advance(secs(8));
    world.heal("b");
    // By then, the lost renewals have been given up.
    world.advance(secs(8));
    let stats = world.stats_of("b");
    assert_eq!(stats.open, 1, "one poll\n{}", world.trace());
    world.run(held.release()).expect("released");
    let permit = world.run(waiting).expect("the slot is free");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}
