//! Many permits of one handle at once.

use semaphore_core::sans_io::Request;
use transport_mock::MockConsul;

use crate::support::spy::Spy;
use crate::support::steps::{is_transaction, operations};
use crate::support::*;

/// Whether the request writes the record.
fn writes_record(request: &Request) -> bool {
    let record = format!("{PREFIX}/.lock");
    let is_write = |it: &serde_json::Value| it["Key"] == record.as_str() && it["Verb"] == "cas";
    is_transaction(request) && operations(request).iter().any(is_write)
}

/// Whether the request reads the whole prefix within a write: Consul serves nobody meanwhile.
fn reads_prefix(request: &Request) -> bool {
    let is_read = |it: &serde_json::Value| it["Verb"] == "get-tree";
    is_transaction(request) && operations(request).iter().any(is_read)
}

/// Each write contains all holders, so it should admit more than one or two.
#[test]
fn while_hundreds_of_slots_are_free_callers_share_writes() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 600);
    let spy = Spy::on(&world);
    let waiting: Vec<_> = (0..600)
        .map(|_| {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire().await })
        })
        .collect();
    let permits: Vec<_> = waiting
        .into_iter()
        .map(|it| world.run(it).expect("a slot"))
        .collect();
    assert_eq!(holders(&world).len(), 600);
    let writes = spy.count(writes_record);
    let share = 3;
    assert!(writes <= 600 / share, "{writes} writes");
    drop(permits);
}

/// docs/PROTOCOL.md, enter and claim: who is not in a list came after all who had called before it. If
/// each write read the prefix, 5,000 permits would take a minute, and most callers would fail.
#[test]
fn callers_who_came_together_read_the_prefix_once_and_who_comes_later_reads_it() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 600);
    let spy = Spy::on(&world);
    let waiting: Vec<_> = (0..500)
        .map(|_| {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire().await })
        })
        .collect();
    let mut permits: Vec<_> = waiting
        .into_iter()
        .map(|it| world.run(it).expect("a slot"))
        .collect();
    // The first write takes one whole transaction of newcomers, who read along.
    let together = spy.count(reads_prefix);
    assert!((1..=2).contains(&together), "{together} reads");
    permits.push(world.run(semaphore.acquire()).expect("a slot"));
    assert_eq!(spy.count(reads_prefix), together + 1);
    drop(permits);
}
