//! Taking a slot only if one is free now.

use semaphore_core::adapter::Request;
use semaphore_core::{Error, Refusal, RequestError};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::stranger::Stranger;
use crate::support::*;

#[test]
fn a_free_slot_is_taken_at_once() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.try_acquire()).expect("an answer");
    let permit = permit.expect("a free slot");
    assert!(permit.is_held());
    assert!(world.now().since_origin() < millis(100));
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_free_slot_is_taken_whatever_arrives_first() {
    for seed in 0..100 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(20));
        let semaphore = semaphore(&world, "a", 1);
        for _ in 0..3 {
            let permit = world.run(semaphore.try_acquire()).expect("an answer");
            assert!(permit.is_ok(), "seed {seed}\n{}", world.trace());
            drop(permit);
            world.advance(secs(1));
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn tasks_of_one_client_that_try_at_once_share_what_is_free() {
    for seed in 0..20 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(20));
        let semaphore = semaphore(&world, "a", 3);
        let tasks: Vec<_> = (0..5)
            .map(|_| {
                let semaphore = semaphore.clone();
                world.start(async move { semaphore.try_acquire().await })
            })
            .collect();
        let results: Vec<_> = tasks.into_iter().map(|task| world.run(task)).collect();
        let permits: Vec<_> = results
            .into_iter()
            .filter_map(|result| result.expect("an answer").ok())
            .collect();
        assert_eq!(permits.len(), 3, "seed {seed}");
        assert_eq!(holders(&world).len(), 3);
        drop(permits);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_taken_slot_is_told_after_one_read_and_without_a_session() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let other = semaphore(&world, "b", 1);
    let permit = world.run(holder.acquire()).expect("a free slot");
    let refusal = world.run(other.try_acquire()).expect("an answer");
    let refusal = refusal.expect_err("it is held");
    assert_eq!(refusal, Refusal::LimitReached { free: 0, limit: 1 });
    assert_eq!(refusal.to_string(), "0 of 1 slots are free");
    let stats = world.stats_of("b");
    assert_eq!(stats.total_requests(), 1, "{stats:?}");
    assert_eq!(stats.requests_of(RequestKind::KvRead), 1, "{stats:?}");
    world.run(permit.release()).expect("released");
    world.advance(secs(60));
    assert_eq!(world.stats_of("b").total_requests(), 1);
    assert_nothing_left(&world);
}

#[test]
fn a_taken_slot_of_ones_own_is_told_without_another_session() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let again = world.run(semaphore.try_acquire()).expect("an answer");
    let reached = Refusal::LimitReached { free: 0, limit: 1 };
    assert_eq!(again.expect_err("it is held"), reached);
    assert_eq!(session_count(&world), 1);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_slot_that_was_freed_since_the_last_look_is_taken() {
    let world = MockConsul::new(1);
    let [holder, other] = ["a", "b"].map(|host| semaphore(&world, host, 2));
    let theirs = world.run(other.acquire()).expect("a free slot");
    let ours = world.run(holder.acquire()).expect("a free slot");
    // The holder knows of both holds, but does not watch yet.
    world.run(theirs.release()).expect("released");
    let permit = world.run(holder.try_acquire()).expect("an answer");
    assert!(permit.is_ok(), "{}", world.trace());
    drop((ours, permit));
}

#[test]
fn one_that_others_wait_for_is_not_taken() {
    let world = MockConsul::new(1);
    let hosts: Vec<_> = ["a", "b", "c"]
        .map(|host| semaphore(&world, host, 1))
        .into();
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let mut waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    assert!(
        world
            .run(hosts[2].try_acquire())
            .expect("an answer")
            .is_err()
    );
    assert!(waiting.try_take().is_none());
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("the waiter's turn");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn one_that_is_free_but_waited_for_is_left_to_the_waiter() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    // A stranger is in the queue and does not claim.
    let stranger = Stranger::enters(&world);
    let refusal = world.run(hosts[1].try_acquire()).expect("an answer");
    let (waiters, free) = (1, 1);
    let others_wait = Refusal::OthersWait { waiters, free };
    assert_eq!(refusal.expect_err("it is waited for"), others_wait);
    stranger.leaves(&world);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn one_that_a_task_of_the_same_client_waits_for_is_not_taken() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let waiter = semaphore.clone();
    let mut waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    let refusal = world.run(semaphore.try_acquire()).expect("an answer");
    let refusal = refusal.expect_err("it is waited for");
    assert_eq!(refusal, Refusal::OthersHere);
    assert!(waiting.try_take().is_none());
    drop(permit);
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn two_at_once_share_two_free_slots() {
    let world = MockConsul::new(1);
    let tries = ["a", "b"].map(|host| {
        let semaphore = semaphore(&world, host, 2);
        world.start(async move { semaphore.try_acquire().await })
    });
    let permits = tries.map(|task| world.run(task).expect("an answer"));
    // Each may see the other one ahead, or lose the race. The number of slots taken must be right.
    let taken = permits.iter().flatten().count();
    assert_eq!(holders(&world).len(), taken);
    assert!(taken >= 1);
    drop(permits);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn several_slots_are_tried_all_or_nothing() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 3);
    let other = semaphore(&world, "b", 3);
    let permit = world.run(holder.acquire()).expect("a free slot");
    let three = world.run(other.try_acquire_many(3)).expect("an answer");
    let reached = Refusal::LimitReached { free: 2, limit: 3 };
    assert_eq!(three.expect_err("one is held"), reached);
    let two = world.run(other.try_acquire_many(2)).expect("an answer");
    assert_eq!(two.as_ref().map(semaphore_core::Permit::permits), Ok(2));
    assert_eq!(holders(&world).len(), 3);
    drop((permit, two));
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_transient_failure_at_any_request_ends_it_at_once() {
    // The requests of a try: at least a list, a session, and the claim.
    for skip in 0.. {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        // A poll beside the last claim fails too late to matter.
        let counts = |request: &Request| RequestKind::of(request) != RequestKind::KvWatch;
        world.inject(Rule::new(Fault::no_leader()).matching(counts).skip(skip));
        let result = world.run(semaphore.try_acquire());
        if world.pending_rules() > 0 {
            assert!(skip >= 3, "only {skip} requests");
            let permit = result.expect("an answer").expect("a free slot");
            world.run(permit.release()).expect("released");
            break;
        }
        assert!(world.now().since_origin() < millis(100));
        match result {
            Err(Error::Request(RequestError::Unavailable { status: 500, .. })) => {}
            other => panic!("request {skip}: {other:?}\n{}", world.trace()),
        }
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn an_unreachable_agent_is_told_at_once() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.inject(Rule::new(Fault::Refuse).always());
    match world.run(semaphore.try_acquire()) {
        Err(Error::Request(RequestError::Transport(_))) => {}
        other => panic!("{other:?}"),
    }
    assert!(world.now().since_origin() < millis(100));
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), 1);
    assert_nothing_left(&world);
}

#[test]
fn a_try_after_a_pause_with_the_poll_still_under_way_is_answered_at_once() {
    let world = MockConsul::new(1);
    let [holder, other] = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(holder.acquire()).expect("a free slot");
    // No session is created, so nothing is left whose end would end the poll.
    world.inject(
        Rule::new(Fault::Refuse)
            .kind(RequestKind::SessionCreate)
            .always(),
    );
    let result = world.run(other.acquire_timeout(secs(1)));
    assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
    world.advance(secs(2));
    let before = world.now();
    let result = world.run(other.try_acquire());
    assert!(result.expect("an answer").is_err());
    let took = world.now().saturating_since(before);
    assert!(took < millis(100), "{took:?}\n{}", world.trace());
    drop(permit);
}
