//! Agents that limit requests (`limits.request_limits`, from 1.15 on). They count a renewal as a
//! write, like a claim. Renewals must come through first.

use semaphore_core::Semaphore;
use transport_mock::consul::{RequestLimits, Version};
use transport_mock::{MockConsul, PooledClient};

use crate::support::*;

/// A world whose agents can have limits.
fn world(seed: u64) -> MockConsul {
    MockConsul::with_profile(seed, Version::V1_15)
}

/// From now on, servers serve this many requests per second.
fn limit(world: &MockConsul, read_rate: f64, write_rate: f64) {
    world.set_request_limits(Some(RequestLimits {
        read_rate: Some(read_rate),
        write_rate: Some(write_rate),
    }));
}

/// How many writes and how many reads were refused because of the limits.
fn refused(world: &MockConsul) -> [usize; 2] {
    let trace = world.trace();
    [" < 503 ", " < 429 "].map(|status| trace.matches(status).count())
}

async fn turn(semaphore: Semaphore) {
    let permit = semaphore.acquire().await.expect("a permit");
    // The belief may end before the limits let the release through. It goes on behind then.
    drop(permit.release().await);
}

/// Takes endless turns, as fast as they are served.
async fn is_busy(semaphore: Semaphore) {
    loop {
        if let Ok(permit) = semaphore.acquire().await {
            drop(permit.release().await);
        }
    }
}

/// One of several semaphores of a process, which share its connections.
fn of_process(transport: &PooledClient, prefix: &str) -> Semaphore {
    let builder = builder_of(prefix, 1).ttl(secs(10));
    builder.connect(transport.clone()).expect("valid settings")
}

#[test]
fn a_hold_lasts_where_reads_and_writes_are_scarce() {
    let world = world(1);
    limit(&world, 1.0, 1.0);
    let holder = semaphore(&world, "a", 1);
    let permit = world.run(holder.acquire()).expect("a permit");
    let waiter = semaphore(&world, "b", 1);
    let waits = world.start(turn(waiter));
    world.advance(secs(600));
    assert!(permit.is_held(), "{}", world.trace());
    world.run(permit.release()).expect("released");
    world.run(waits);
}

/// Holds one semaphore of a process for two minutes while thirty others are as busy as possible.
/// Returns the number of refused writes and reads.
fn hold_beside_busy_ones(seed: u64, read_rate: f64, write_rate: f64) -> [usize; 2] {
    let world = world(seed);
    let transport = world.client("a").pooled(64).expect("a valid number");
    let held = of_process(&transport, "held");
    let permit = world.run(held.acquire()).expect("a slot");
    let tasks: Vec<_> = (0..30)
        .map(|number| of_process(&transport, &format!("busy/{number}")))
        .map(|semaphore| world.start(is_busy(semaphore)))
        .collect();
    world.advance(millis(200));
    limit(&world, read_rate, write_rate);
    for second in 0..120 {
        world.advance(secs(1));
        let is_held = permit.is_held();
        assert!(is_held, "seed {seed}, second {second}\n{}", world.trace());
    }
    let refused = refused(&world);
    for task in tasks {
        task.abort();
    }
    world.set_request_limits(None);
    world.run(permit.release()).expect("released");
    world.advance(secs(60));
    assert_nothing_left(&world);
    refused
}

#[test]
fn a_hold_outlives_limits_that_leave_few_writes_but_what_renewals_take() {
    let [writes, _] = hold_beside_busy_ones(0, 20.0, 12.0);
    assert!(writes > 1_000, "{writes}");
}

#[test]
fn a_hold_outlives_limits_that_leave_few_reads_but_what_confirms_renewals() {
    hold_beside_busy_ones(0, 5.0, 15.0);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn a_hold_outlives_such_limits_in_other_worlds_too() {
    for seed in 1..6 {
        let [writes, _] = hold_beside_busy_ones(seed, 20.0, 12.0);
        let [_, reads] = hold_beside_busy_ones(seed, 5.0, 15.0);
        assert!(
            writes > 1_000 && reads > 1_000,
            "seed {seed}: {writes}, {reads}"
        );
    }
}

#[test]
fn everybody_gets_in_where_more_come_than_writes_are_allowed() {
    let world = world(1);
    limit(&world, 5.0, 3.0);
    let turns: Vec<_> = (0..20)
        .map(|host| world.start(turn(semaphore(&world, &format!("node-{host}"), 1))))
        .collect();
    for turn in turns {
        world.run(turn);
    }
    // Who waits need hardly read beside its poll.
    let [writes, _] = refused(&world);
    assert!(writes > 10, "{writes}");
    world.set_request_limits(None);
    world.advance(secs(60));
    assert_nothing_left(&world);
}
