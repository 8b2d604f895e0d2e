//! An agent refuses a key with this name: from 1.21.5 on `/v1/kv`, and from 1.23 also in
//! transactions. The refused names differ between releases, so a key may have been fine before an
//! upgrade of the agent.

use semaphore_core::adapter::Request;
use semaphore_core::sans_io::Response;
use semaphore_core::{Error, Lost, RequestError};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::election::{assert_only_key_left, election, leader};
use crate::support::*;

const TEXT: &str = "invalid key name, leading/trailing spaces are not allowed";

fn is_of_keys(request: &Request) -> bool {
    request.target().starts_with("/v1/kv/")
}

/// From now on, agents behave like 1.22: they refuse the key, but only on `/v1/kv`.
fn upgrade(world: &MockConsul) {
    let refusal = Fault::Answer(Response::new(500, TEXT));
    world.inject(Rule::new(refusal).matching(is_of_keys).always());
}

#[track_caller]
fn assert_says_the_rule(error: &RequestError) {
    assert!(
        matches!(error, RequestError::InvalidKey { text, .. } if text == TEXT),
        "{error:?}"
    );
}

// Goes with the machine that needs it: later nobody reads before it enters, and transactions do not refuse such keys.
#[cfg(not(semaphore_next))]
#[test]
fn whoever_comes_is_told_the_rule_at_once_and_leaves_nothing() {
    let world = MockConsul::new(1);
    upgrade(&world);
    let semaphore = semaphore(&world, "a", 1);
    let before = world.now();
    let refused = world.run(semaphore.acquire());
    let Err(Error::Request(error)) = &refused else {
        panic!("{refused:?}");
    };
    assert_says_the_rule(error);
    let refused = world.run(election(&world, "b").campaign());
    let Err(Error::Request(error)) = &refused else {
        panic!("{refused:?}");
    };
    assert_says_the_rule(error);
    assert!(world.now().saturating_since(before) < secs(1));
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_holder_whose_key_is_refused_after_an_upgrade_does_not_go_on_unwatched() {
    let world = MockConsul::new(2);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.advance(secs(2));
    upgrade(&world);
    let before = world.now();
    let lost = world.run(permit.lost());
    // The poll that was under way is still answered.
    let took = world.now().saturating_since(before);
    let most = if cfg!(semaphore_next) { 65 } else { 16 };
    assert!(took <= secs(most), "{took:?}");
    let Lost::Unreadable { refusal, .. } = &lost else {
        panic!("{lost:?}");
    };
    assert_says_the_rule(refusal);
    assert!(!permit.is_held());
    drop(permit);
    world.clear_faults();
    world.advance(secs(60));
    assert_recovered(&world, 1);
}

#[test]
fn a_leader_whose_key_is_refused_after_an_upgrade_does_not_go_on_unwatched() {
    let world = MockConsul::new(3);
    let (_election, leadership) = leader(&world);
    world.advance(secs(2));
    upgrade(&world);
    let before = world.now();
    let lost = world.run(leadership.lost());
    let took = world.now().saturating_since(before);
    assert!(took <= secs(16), "{took:?}");
    let Lost::Unreadable { refusal, .. } = &lost else {
        panic!("{lost:?}");
    };
    assert_says_the_rule(refusal);
    assert!(!leadership.is_leader());
    drop(leadership);
    world.clear_faults();
    world.advance(secs(60));
    assert_only_key_left(&world);
}
