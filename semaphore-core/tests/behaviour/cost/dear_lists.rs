//! Other keys below the prefix cost nobody anything, and neither do large values of others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semaphore_core::Semaphore;
use semaphore_core::sans_io::{Method, Request};
use transport_mock::{Fault, MockConsul, MockProcess, Rule};

use crate::support::stranger::operate;
use crate::support::*;

/// The cost of a number of turns.
struct Cost {
    turns: u64,
    bytes: u64,
    requests: u64,
}

/// These handles take turns of 10 ms for a second, on an agent nearby.
fn turns(world: &MockConsul, handles: Vec<Semaphore>, limit: u64) -> Cost {
    world.set_latency(Duration::from_micros(100)..=Duration::from_micros(300));
    let tally = Arc::new(Mutex::new((0_u64, 0_u64)));
    let mut callers = Vec::new();
    for handle in handles {
        let (sleeper, tally) = (world.clone(), Arc::clone(&tally));
        callers.push(world.start(async move {
            loop {
                let permit = handle.acquire().await.expect("a turn");
                {
                    let mut tally = tally.lock().expect("a tally");
                    tally.0 += 1;
                    tally.1 += 1;
                    assert!(tally.1 <= limit, "more hold than may");
                }
                sleeper.sleep(millis(10)).await;
                assert!(permit.is_held());
                tally.lock().expect("a tally").1 -= 1;
                permit.release().await.expect("released");
            }
        }));
    }
    world.advance(millis(300));
    let (turns, before) = (tally.lock().expect("a tally").0, world.stats());
    world.advance(secs(1));
    let after = world.stats();
    for caller in callers {
        caller.abort();
    }
    Cost {
        turns: tally.lock().expect("a tally").0 - turns,
        bytes: after.bytes_down - before.bytes_down,
        requests: after.total_requests() - before.total_requests(),
    }
}

/// Keys of others: this many values, deeper than the semaphore's own keys.
fn put_others(world: &MockConsul, count: usize) {
    let value = "x".repeat(100);
    for number in 0..count {
        let target = format!("/v1/kv/{PREFIX}/shards/{number}");
        operate(world, Method::Put, &target, &value);
    }
}

fn lists(request: &Request) -> bool {
    request.target().contains("recurse") || request.body().windows(8).any(|it| it == b"get-tree")
}

#[test]
fn a_turn_costs_the_same_whatever_others_keep_below_the_prefix() {
    for others in [0, 1_000] {
        let world = MockConsul::new(1);
        put_others(&world, others);
        let handles = (0..4).map(|host| semaphore(&world, &format!("node-{host}"), 2));
        let cost = turns(&world, handles.collect(), 2);
        let percent = cost.turns * 100 / 200;
        assert!(percent >= 80, "{others}: {percent} % of the ideal");
        assert!(
            cost.bytes / cost.turns <= 20_000,
            "{others}: {} bytes",
            cost.bytes
        );
        assert!(
            cost.requests / cost.turns <= 12,
            "{others}: {} requests",
            cost.requests
        );
    }
}

#[test]
fn the_bytes_of_a_turn_do_not_grow_with_the_values() {
    let world = MockConsul::new(1);
    let handles = (0..10).map(|host| {
        let builder = builder(2).value(vec![b'x'; 100_000]);
        connect(builder, &world.client(format!("node-{host}")))
    });
    let cost = turns(&world, handles.collect(), 2);
    let percent = cost.turns * 100 / 200;
    assert!(percent >= 80, "{percent} % of the ideal");
    assert!(
        cost.bytes / cost.turns <= 20_000,
        "{} bytes",
        cost.bytes / cost.turns
    );
}

#[test]
fn a_prefix_that_is_larger_than_the_transport_takes_keeps_nobody_from_a_turn() {
    let world = MockConsul::new(1);
    world.inject(Rule::new(Fault::BadAnswer).matching(lists).always());
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    let permit = world.run(a.acquire()).expect("a free slot");
    let waiting = world.start(async move { b.acquire().await });
    world.advance(secs(2));
    world.run(permit.release()).expect("released");
    let began = world.now();
    let permit = world.run(waiting).expect("its turn");
    assert!(world.now().saturating_since(began) < millis(50));
    world.run(permit.release()).expect("released");
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
