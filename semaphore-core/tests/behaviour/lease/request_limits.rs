//! Agents that limit requests (`limits.request_limits`, from 1.15 on): renewals are writes, and come through.

use semaphore_core::Semaphore;
use transport_mock::MockConsul;
use transport_mock::consul::{RequestLimits, Version};

use crate::support::*;

/// A world whose servers serve so many requests in a second.
fn limited(read_rate: f64, write_rate: f64) -> MockConsul {
    let world = MockConsul::with_profile(1, Version::V1_15);
    world.set_request_limits(Some(RequestLimits {
        read_rate: Some(read_rate),
        write_rate: Some(write_rate),
    }));
    world
}

async fn turn(semaphore: Semaphore) {
    let permit = semaphore.acquire().await.expect("a permit");
    permit.release().await.expect("released");
}

#[test]
fn a_hold_lasts_where_reads_and_writes_are_scarce() {
    let world = limited(1.0, 1.0);
    let holder = semaphore(&world, "a", 1);
    let permit = world.run(holder.acquire()).expect("a permit");
    let waiter = semaphore(&world, "b", 1);
    let waits = world.start(turn(waiter));
    world.advance(secs(600));
    assert!(permit.is_held(), "{}", world.trace());
    world.run(permit.release()).expect("released");
    world.run(waits);
}

#[test]
fn everybody_gets_in_where_more_come_than_writes_are_allowed() {
    let world = limited(5.0, 3.0);
    let turns: Vec<_> = (0..20)
        .map(|host| world.start(turn(semaphore(&world, &format!("node-{host}"), 1))))
        .collect();
    for turn in turns {
        world.run(turn);
    }
    let trace = world.trace();
    let refused = [" < 503 ", " < 429 "].map(|status| trace.matches(status).count());
    assert!(refused.iter().all(|count| *count > 10), "{refused:?}");
    world.set_request_limits(None);
    world.advance(secs(60));
    assert_nothing_left(&world);
}
