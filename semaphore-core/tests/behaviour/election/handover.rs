//! Leaders that follow one another quickly. A candidate that was too late for one term is in time
//! for the next one. It only waits after a refusal if there may be a lock delay, and not if
//! somebody else's term explains the refusal.

use std::time::Duration;

use semaphore_core::adapter::{Instant, Method, Request, Runtime as _};
use semaphore_core::sans_io::api::LOCK_FLAGS;
use transport_mock::{Fault, MockConsul, Rule, Task};

use crate::support::election::*;
use crate::support::stranger::Stranger;
use crate::support::*;

const TERM: Duration = Duration::from_millis(10);

/// Campaigns, leads for a moment and resigns. Returns its first and last moment as the leader.
fn leads_for_a_moment(world: &MockConsul, host: &str) -> Task<(Instant, Instant)> {
    let election = election(world, host);
    let clock = world.client("clock");
    world.start(async move {
        let leadership = election.campaign().await.expect("elected");
        let from = clock.now();
        clock.sleep(TERM).await;
        assert!(leadership.is_leader());
        let until = clock.now();
        leadership.resign().await.expect("resigned");
        (from, until)
    })
}

/// Asserts that each term begins soon after the one before.
#[track_caller]
fn assert_no_gaps(mut terms: Vec<(Instant, Instant)>) {
    terms.sort();
    for pair in terms.windows(2) {
        let gap = pair[1].0.saturating_since(pair[0].1);
        assert!(gap <= millis(100), "{gap:?} in {terms:?}");
    }
}

#[test]
fn one_term_follows_another_without_a_gap_however_short_they_are() {
    for seed in 0..10 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(5));
        let (_first, leadership) = leader(&world);
        let names = ["b", "c", "d", "e"];
        let waiting = names.map(|name| leads_for_a_moment(&world, name));
        world.advance(secs(1));
        let end = world.now();
        world.run(leadership.resign()).expect("resigned");
        let terms = waiting.into_iter().map(|task| world.run(task));
        assert_no_gaps([(end, end)].into_iter().chain(terms).collect());
        world.advance(secs(1));
        assert_only_key_left(&world);
    }
}

/// The watch shows the winner before the answer to the loser's attempt.
#[test]
fn a_refusal_that_comes_late_is_no_reason_to_wait() {
    let world = MockConsul::new(1);
    let (_first, leadership) = leader(&world);
    let waiting = ["b", "c"].map(|name| leads_for_a_moment(&world, name));
    world.advance(secs(1));
    let is_attempt = |request: &Request| {
        let target = request.target();
        target.contains("acquire=") || target.starts_with("/v1/txn")
    };
    let late = Rule::new(Fault::DelayAnswer(millis(15))).matching(is_attempt);
    world.inject(late.host("c"));
    let end = world.now();
    world.run(leadership.resign()).expect("resigned");
    let terms = waiting.into_iter().map(|task| world.run(task));
    assert_no_gaps([(end, end)].into_iter().chain(terms).collect());
    assert_eq!(world.pending_rules(), 0);
}

/// A whole term of somebody else may pass between two answers.
#[test]
fn a_term_that_was_never_seen_explains_a_refusal_too() {
    let world = MockConsul::new(1);
    let other = Stranger::session(&world);
    let (_first, leadership) = leader(&world);
    let b = election(&world, "b");
    let waiting = world.start(async move { b.campaign().await.map(|it| (b, it)) });
    world.advance(secs(1));
    // Its attempt arrives while the other one leads. Its next poll arrives after the other one's
    // term.
    world.inject(Rule::new(Fault::Delay(millis(5))).host("b").always());
    world.run(leadership.resign()).expect("resigned");
    let call = |how: &str| {
        let target = format!("/v1/kv/{KEY}?{how}={}&flags={LOCK_FLAGS}", other.session);
        let answer = other.call(&world, Method::Put, &target, "other");
        assert_eq!(answer.body().trim_ascii(), b"true");
    };
    call("acquire");
    world.advance(millis(5));
    call("release");
    let free = world.now();
    let (_b, second) = world.run(waiting).expect("elected");
    assert_eq!(second.term(), 3);
    let took = world.now().saturating_since(free);
    assert!(took <= millis(100), "{took:?}");
}
