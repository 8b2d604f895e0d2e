//! Clients gave up writes while there was no leader. Consul applies them after a read has shown
//! that they were not applied.
//!
//! If we created the session, destroying it also ends late writes. A caller's session lives on.
//! Consul 1.23 applied such writes up to 4.7 s after a read.

use std::time::Duration;

use semaphore_core::adapter::Response;
use semaphore_core::{Error, Semaphore};
use transport_mock::{Fault, MockConsul, MockProcess, RequestKind, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::election::{KEY, assert_only_key_left, election, found, leader};
use crate::support::spy::Spy;
use crate::support::steps::{
    Is, claims, deletes_key, destroys_session, ties_key, withdraws, writes_record,
};
use crate::support::stranger::Stranger;
use crate::support::*;

/// Agents like those of 1.23. The cluster loses its leader after `since`, for the time `time`.
fn without_leader(world: &MockConsul, since: Duration, time: Duration) {
    world.hold_without_leader(millis(8_600)..=secs(18), millis(4_700));
    world.advance(since);
    world.lose_leader();
    world.advance(time);
    world.elect_leader();
}

/// The number of writes that were applied after their clients had given up. Runs `leave` in many
/// worlds.
fn in_worlds(leave: impl Fn(&MockConsul, u64)) -> u64 {
    let mut late = 0;
    for seed in 0..120 {
        let world = MockConsul::new(seed);
        leave(&world, seed);
        late += world.held_without_leader().1;
    }
    late
}

/// A candidate that has given up its campaign releases the key before it destroys its session.
/// Otherwise a late attempt would leave a lock delay.
#[test]
fn an_attempt_to_lead_that_comes_after_a_read_leaves_no_lock_delay() {
    let late = in_worlds(|world, seed| {
        // Half of the worlds have a key.
        if seed % 2 == 0 {
            let first = election(world, "first");
            let leadership = world.run(first.campaign()).expect("elected");
            world.run(leadership.resign()).expect("resigned");
        }
        let a = election(world, "a");
        let mut waiting = world.start(async move { a.campaign().await });
        without_leader(world, millis(seed % 12), secs(13) + millis(20 * seed));
        world.advance(millis(5 * seed));
        let elected = waiting.try_take();
        waiting.abort();
        drop(elected);
        let before = world.now();
        let next = world.run(election(world, "b").campaign()).expect("elected");
        let took = world.now().saturating_since(before);
        assert!(took < secs(9), "seed {seed}: {took:?}\n{}", world.trace());
        world.run(next.resign()).expect("resigned");
        world.advance(secs(60));
        assert_only_key_left(world);
    });
    assert!(late > 50, "{late} writes came late");
}

/// An agent's refusal to give a key away during a lock delay.
fn delayed() -> Response {
    let what = format!("failed to lock key \"{KEY}\" due to lock delay");
    let errors = serde_json::json!([{"OpIndex": 1, "What": what}]);
    let body = serde_json::json!({"Results": null, "Errors": errors});
    Response::new(409, body.to_string())
}

/// A read shows that the key is free, and further attempts are refused. Then the first attempt
/// arrives before its sender leaves.
#[test]
fn an_attempt_that_a_read_has_not_shown_is_released_by_whoever_leaves() {
    for is_first in [true, false] {
        let world = MockConsul::new(1);
        if !is_first {
            let leadership = world.run(election(&world, "first").campaign());
            let resigned = world.run(leadership.expect("elected").resign());
            resigned.expect("resigned");
        }
        let rule = |fault| Rule::new(fault).host("a").matching(ties_key);
        world.inject(rule(Fault::Answer(delayed())).skip(1).always());
        // The sender gives it up after 3 s.
        world.inject(rule(Fault::Delay(secs(5))));
        // No poll shows it before the sender leaves.
        let silent = Rule::new(Fault::LoseAnswer).host("a");
        world.inject(silent.kind(RequestKind::KvWatch).always().optional());
        let a = election(&world, "a");
        let waiting = world.start(async move { a.campaign().await });
        world.advance(secs(5));
        let is_tied = || found(&world).is_some_and(|key| !key.session.is_empty());
        while !is_tied() {
            world.advance(millis(1));
        }
        waiting.abort();
        let before = world.now();
        let next = world
            .run(election(&world, "b").campaign())
            .expect("elected");
        let took = world.now().saturating_since(before);
        assert!(took < secs(4), "{took:?}\n{}", world.trace());
        drop(next);
    }
}

/// A leaving contender writes the record or its key once more before its session ends. So the write
/// that was given up arrives too late.
fn leaves_after(world: &MockConsul, is: Is, turn: impl FnOnce(&Semaphore, &Spy)) {
    let spy = Spy::on_host(world, "a");
    let before = holders(world);
    world.inject(Rule::new(Fault::Delay(secs(8))).host("a").matching(is));
    let a = semaphore(world, "a", 1);
    turn(&a, &spy);
    world.advance(secs(6));
    assert!(spy.count(|it| writes_record(it) || deletes_key(it)) >= 2);
    world.advance(secs(30));
    assert!(spy.count(destroys_session) > 0);
    let is_new = |holder: &String| !before.contains(holder);
    assert!(!holders(world).iter().any(is_new), "{}", world.trace());
    assert_eq!(contender_keys(world), [""; 0], "{}", world.trace());
    assert_recovered(world, 1);
}

#[test]
fn a_claim_that_a_read_has_not_shown_is_fenced_before_its_sender_leaves() {
    let world = MockConsul::new(1);
    leaves_after(&world, claims, |semaphore, _| {
        assert!(world.run(semaphore.acquire_timeout(secs(2))).is_err());
    });
}

#[test]
fn a_release_that_a_read_has_not_shown_is_written_again() {
    let world = MockConsul::new(1);
    leaves_after(&world, withdraws, |semaphore, _| {
        let permit = world.run(semaphore.acquire()).expect("a slot");
        world.run(permit.release()).expect("released");
    });
}

/// The late write is a claim that replaces a dead holder.
#[test]
fn a_write_that_prunes_is_fenced_when_a_read_has_not_shown_it() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("dead"));
    let dead = builder(1).connect(process.clone()).expect("valid settings");
    let _lost = world.run(dead.acquire()).expect("a slot");
    process.kill();
    // Its session ends after 30 s, and its lock delay 15 s later.
    world.advance(secs(46));
    leaves_after(&world, claims, |semaphore, spy| {
        let waiter = semaphore.clone();
        let waiting = world.start(async move { waiter.acquire().await });
        while spy.count(claims) == 0 {
            world.advance(millis(100));
        }
        world.advance(secs(2));
        waiting.abort();
    });
}

/// The leader changes its value, gives that up, and resigns.
#[test]
fn a_value_that_comes_after_the_resignation_is_not_written() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    world.inject(
        Rule::new(Fault::Delay(secs(5)))
            .host("a")
            .matching(ties_key),
    );
    let lost = Rule::new(Fault::LoseRequest).host("a").matching(ties_key);
    world.inject(lost.always().optional());
    let leadership = std::sync::Arc::new(leadership);
    let changer = std::sync::Arc::clone(&leadership);
    let changing = world.start(async move { changer.set_value("late").await });
    world.advance(millis(3_500));
    changing.abort();
    let leadership = std::sync::Arc::into_inner(leadership).expect("nobody else has it");
    world.run(leadership.resign()).expect("resigned");
    let b = world
        .run(election(&world, "b").campaign())
        .expect("elected");
    world.advance(secs(30));
    assert!(b.is_leader());
    assert_eq!(found(&world).expect("a key").value, "b");
}

/// The removal of the record is applied late. By then somebody waits for the semaphore.
#[test]
fn a_removal_that_was_given_up_is_not_told_to_be_refused() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "operator", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a slot");
        permit.release().await.expect("released");
    });
    world.advance(secs(2));
    let given_up = Rule::new(Fault::Delay(secs(30))).host("operator");
    world.inject(given_up.matching(deletes_key));
    let removal = world.start(async move { semaphore.destroy().await });
    world.advance(secs(1));
    // The stranger never claims, so the record stays as it is.
    let stranger = Stranger::enters(&world);
    let error = world.run(removal).expect_err("nobody knows yet");
    assert!(matches!(error, Error::Request(_)), "{error:?}");
    world.advance(secs(30));
    assert!(record(&world).is_none(), "{}", world.trace());
    stranger.leaves(&world);
}
