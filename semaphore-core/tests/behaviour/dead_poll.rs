//! A poll that died in silence is missed as soon as other requests tell of the silence.

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

    // Long enough for a renewal to meet it.
    world.partition("b");
    world.run(held.release()).expect("released");
    world.advance(secs(8));
    world.heal("b");

    let healed_at = world.now();
    let _permit = world.run(waiting).expect("the slot is free");
    let took = world.now().saturating_since(healed_at);
    assert!(took < secs(4), "{took:?}\n{}", world.trace());
}
