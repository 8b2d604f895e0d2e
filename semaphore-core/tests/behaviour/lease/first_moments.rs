//! A hold is not watched in its first moments. If it is taken away then, the holder notices at
//! their end. Later it notices at once, or with the next proof.

use std::time::Duration;

use semaphore_core::sans_io::Method;
use semaphore_core::{Lost, Permit};
use transport_mock::{MockConsul, RequestKind};

use crate::support::stranger::operate;
use crate::support::*;

/// How long a transaction's result is trusted without another read.
const FIRST_MOMENTS: Duration = secs(1);

/// A request and its answer, including the eviction's way to the server.
const ROUND: Duration = Duration::from_millis(5);

/// As an operator, writes a record without holders.
fn evict(world: &MockConsul, limit: u32) {
    let lock = format!("/v1/kv/{PREFIX}/.lock?flags=16210313421097356768");
    let record = format!(r#"{{"Limit":{limit},"Holders":{{}}}}"#);
    operate(world, Method::Put, &lock, &record);
}

/// How many reads of the prefix or the record this host has sent.
fn reads(world: &MockConsul, host: &str) -> u64 {
    let stats = world.stats_of(host);
    stats.requests_of(RequestKind::KvRead) + stats.requests_of(RequestKind::KvWatch)
}

/// Waits for the loss, and returns how long after `since` it was noticed.
#[track_caller]
fn noticed(
    world: &MockConsul,
    permit: &Permit,
    since: semaphore_core::sans_io::Instant,
) -> Duration {
    let lost = world.run(permit.lost());
    assert!(matches!(lost, Lost::RemovedFromHolders { .. }), "{lost:?}");
    assert!(!permit.is_held());
    world.now().saturating_since(since)
}

#[test]
fn a_hold_in_its_first_moments_is_not_watched() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let before = reads(&world, "a");
    world.advance(millis(200));
    assert_eq!(reads(&world, "a"), before, "{}", world.trace());
    world.advance(FIRST_MOMENTS.saturating_sub(millis(200)) + ROUND);
    assert!(reads(&world, "a") > before, "{}", world.trace());
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn an_eviction_in_the_first_moments_is_noticed_when_they_are_over() {
    for after in [0, 50, 100, 200, 240].map(millis) {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let (granted, before) = (world.now(), reads(&world, "a"));
        world.advance(after);
        evict(&world, 1);
        assert!(permit.is_held(), "nobody has told it");
        assert_eq!(reads(&world, "a"), before, "{}", world.trace());
        let took = noticed(&world, &permit, granted);
        assert!(took <= FIRST_MOMENTS + ROUND, "{after:?}: {took:?}");
        drop(permit);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn an_eviction_after_the_first_moments_is_noticed_within_one_answer() {
    for after in [255, 300, 1_000, 60_000].map(millis) {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(after);
        let evicted = world.now();
        evict(&world, 1);
        let took = noticed(&world, &permit, evicted);
        let most = ROUND.max(EDIT_SEEN_AFTER);
        assert!(took <= most, "{after:?}: {took:?}");
        drop(permit);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn turns_of_others_of_the_same_client_do_not_hide_an_eviction() {
    for pause in [10, 100, 240].map(millis) {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 2);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let others = {
            let (world, semaphore) = (world.clone(), semaphore.clone());
            async move {
                loop {
                    let other = semaphore.acquire().await.expect("the other slot");
                    world.sleep(pause).await;
                    // The eviction may have removed this permit, too.
                    drop(other);
                }
            }
        };
        let others = world.start(others);
        world.advance(secs(2));
        let evicted = world.now();
        evict(&world, 2);
        let took = noticed(&world, &permit, evicted);
        assert!(took <= FIRST_MOMENTS + ROUND, "{pause:?}: {took:?}");
        others.abort();
        drop(permit);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}
