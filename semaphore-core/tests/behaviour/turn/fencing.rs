//! Fencing tokens rise strictly over all grants of a prefix (invariant S5).

use std::sync::{Arc, Mutex};

use semaphore_core::FencingToken;
use semaphore_core::adapter::Runtime as _;
use transport_mock::{Faults, MockConsul};

use crate::support::stranger::Stranger;
use crate::support::*;

/// The tokens in the order in which their grants became known.
type Tokens = Arc<Mutex<Vec<FencingToken>>>;

/// Each of `hosts` acquires `turns` times.
fn grants(world: &MockConsul, hosts: usize, limit: u32, turns: usize) -> Vec<FencingToken> {
    let tokens = Tokens::default();
    let tasks: Vec<_> = (0..hosts)
        .map(|host| {
            let client = world.client(format!("node-{host}"));
            let semaphore = connect(builder(limit), &client);
            let tokens = Arc::clone(&tokens);
            world.start(async move {
                for _ in 0..turns {
                    let permit = semaphore.acquire().await.expect("a slot");
                    tokens.lock().expect("tokens").push(permit.fencing_token());
                    client.sleep(millis(5)).await;
                    // A lost permit has a token, too.
                    let _ = permit.release().await;
                }
            })
        })
        .collect();
    for task in tasks {
        world.run(task);
    }
    std::mem::take(&mut tokens.lock().expect("tokens"))
}

#[track_caller]
fn assert_rising(tokens: &[FencingToken]) {
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "{tokens:?}"
    );
}

#[track_caller]
fn assert_distinct(tokens: &[FencingToken]) {
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), tokens.len(), "{tokens:?}");
}

#[test]
fn tokens_of_one_slot_rise_from_holder_to_holder() {
    for seed in 0..5 {
        let world = MockConsul::new(seed);
        let tokens = grants(&world, 5, 1, 6);
        assert_eq!(tokens.len(), 30);
        assert_rising(&tokens);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn tokens_of_one_slot_rise_when_the_network_fails() {
    for seed in 0..10 {
        let world = MockConsul::new(seed);
        world.set_faults(Faults::chaos(0.02));
        let tokens = grants(&world, 4, 1, 4);
        assert_eq!(tokens.len(), 16);
        assert_rising(&tokens);
        world.clear_faults();
        world.advance(secs(120));
        assert_eq!(contender_keys(&world), [""; 0]);
        assert_eq!(session_count(&world), 0);
    }
}

#[test]
fn no_two_grants_of_several_slots_have_the_same_token() {
    for seed in 0..5 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(5));
        let tokens = grants(&world, 8, 3, 4);
        assert_eq!(tokens.len(), 32);
        assert_distinct(&tokens);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn tokens_rise_over_the_destruction_of_the_record() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let mut tokens = Vec::new();
    for _ in 0..5 {
        tokens.extend(grants(&world, 2, 1, 2));
        world.run(semaphore.destroy()).expect("destroyed");
        assert!(record(&world).is_none());
    }
    assert_rising(&tokens);
    assert_nothing_left(&world);
}

#[test]
fn tokens_rise_when_an_operator_deletes_the_record_under_a_holder() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let permit = world.run(semaphore.acquire()).expect("a slot");
        tokens.push(permit.fencing_token());
        let target = format!("/v1/kv/{PREFIX}/.lock");
        crate::support::stranger::operate(
            &world,
            semaphore_core::adapter::Method::Delete,
            &target,
            "",
        );
        world.run(permit.lost());
    }
    assert_rising(&tokens);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_token_is_higher_than_all_that_was_written_before() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let stranger = Stranger::session(&world);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let before = permit.fencing_token();
    world.run(permit.release()).expect("released");
    stranger.acquires(&world, "another/key");
    let permit = world.run(semaphore.acquire()).expect("a slot");
    assert!(permit.fencing_token() > before);
    assert_eq!(
        permit.fencing_token().to_string(),
        permit.fencing_token().0.to_string()
    );
    world.run(permit.release()).expect("released");
    stranger.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn permits_that_were_acquired_together_have_one_token() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 5);
    let three = world.run(semaphore.acquire_many(3)).expect("slots");
    let two = world.run(semaphore.acquire_many(2)).expect("slots");
    assert!(two.fencing_token() > three.fencing_token());
    assert_eq!(three.sequencers().len(), 3);
    world.run(three.release()).expect("released");
    world.run(two.release()).expect("released");
    assert_nothing_left(&world);
}
