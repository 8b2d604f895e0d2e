//! Writes that their client gave up while there was no leader, and that Consul applies after a read has shown that they
//! were not.
//!
//! A session that we made takes what comes late along when it is destroyed. One of the caller's lives on. Agents were seen to
//! apply such writes 4.7 s after a read (Consul 1.23).

use std::time::Duration;

use semaphore_core::Refusal;
use transport_mock::MockConsul;

use crate::support::stranger::Stranger;
use crate::support::*;

const WITH_TTL: &str = r#"{"NodeChecks":[],"TTL":"60s","LockDelay":"60s"}"#;

/// Agents like those of 1.23, in a cluster that has no leader from `since` on for `time`.
fn without_leader(world: &MockConsul, since: Duration, time: Duration) {
    world.hold_without_leader(millis(8_600)..=secs(18), millis(4_700));
    world.advance(since);
    world.lose_leader();
    world.advance(time);
    world.elect_leader();
}

/// How many writes were applied that their clients had given up, after `leave` was called in so many worlds.
fn in_worlds(leave: impl Fn(&MockConsul, u64)) -> u64 {
    let mut late = 0;
    for seed in 0..120 {
        let world = MockConsul::new(seed);
        leave(&world, seed);
        late += world.held_without_leader().1;
    }
    late
}

#[test]
fn a_contender_key_of_a_callers_session_that_comes_late_is_deleted() {
    let late = in_worlds(|world, seed| {
        let own = Stranger::session_with(world, WITH_TTL);
        let builder = builder(1).session(own.session.clone());
        let semaphore = connect(builder, &world.client("a"));
        let waiter = semaphore.clone();
        let mut waiting = world.start(async move { waiter.acquire().await });
        without_leader(world, millis(seed % 12), secs(13) + millis(20 * seed));
        world.advance(millis(10));
        let granted = waiting.try_take();
        waiting.abort();
        drop(granted);
        world.advance(secs(60));
        assert_eq!(
            contender_keys(world),
            [""; 0],
            "seed {seed}\n{}",
            world.trace()
        );
        assert!(own.is_alive(world));
        let again = world.run(semaphore.acquire_timeout(secs(1)));
        world
            .run(again.expect("a free slot").release())
            .expect("released");
        own.leaves(world);
        assert_nothing_left(world);
    });
    assert!(late > 50, "{late} writes came late");
}

#[test]
fn whoever_releases_does_not_wait_for_what_may_come_late() {
    let late = in_worlds(|world, seed| {
        let own = Stranger::session_with(world, WITH_TTL);
        let builder = builder(1).session(own.session.clone());
        let semaphore = connect(builder, &world.client("a"));
        let waiter = semaphore.clone();
        let waiting = world.start(async move { waiter.acquire().await });
        without_leader(world, millis(seed % 12), secs(13));
        let permit = world.run(waiting).expect("a slot");
        let before = world.now();
        world.run(permit.release()).expect("released");
        let took = world.now().saturating_since(before);
        assert!(took < secs(10), "seed {seed}: {took:?}\n{}", world.trace());
        // The key of its only session may come late: an instant try is told so, another one waits.
        if let Ok(Err(refusal)) = world.run(semaphore.try_acquire()) {
            assert_eq!(refusal, Refusal::SessionInUse, "seed {seed}");
        }
        let again = world.run(semaphore.acquire_timeout(secs(60)));
        let took = world.now().saturating_since(before);
        assert!(took < secs(32), "seed {seed}: {took:?}");
        world
            .run(again.expect("a slot").release())
            .expect("released");
        world.advance(secs(60));
        assert_eq!(
            contender_keys(world),
            [""; 0],
            "seed {seed}\n{}",
            world.trace()
        );
        own.leaves(world);
        assert_nothing_left(world);
    });
    assert!(late > 50, "{late} writes came late");
}
