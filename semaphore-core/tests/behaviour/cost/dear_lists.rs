//! Keys of others below the prefix are read with each list, and change nothing else.

use semaphore_core::sans_io::Method;
use transport_mock::{MockConsul, MockProcess};

use crate::support::stranger::operate;
use crate::support::*;

/// Keys of others: this many values, deeper than the semaphore's own keys.
fn put_others(world: &MockConsul, count: usize) {
    let value = "x".repeat(100);
    for number in 0..count {
        let target = format!("/v1/kv/{PREFIX}/shards/{number}");
        operate(world, Method::Put, &target, &value);
    }
}

#[test]
fn a_dead_holder_is_pruned_beside_many_keys_of_others() {
    let world = MockConsul::new(4);
    put_others(&world, 1_000);
    let process = MockProcess::new(&world.client("dead"));
    let dead = builder(1).connect(process.clone()).expect("valid settings");
    let permit = world.run(dead.acquire()).expect("a slot");
    let granted = world.now();
    process.kill();
    let next = semaphore(&world, "next", 1);
    let next = world.run(next.acquire()).expect("a slot");
    let waited = world.now().saturating_since(granted);
    assert!(!permit.is_held());
    // Twice the TTL, and the lock delay. Then up to two polls of the record until it looks at the
    // prefix.
    assert!(waited > secs(44) && waited < secs(57), "{waited:?}");
    world.run(next.release()).expect("released");
}
