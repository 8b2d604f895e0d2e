//! An agent refuses a key with this name: from 1.21.5 on `/v1/kv`, and from 1.23 also in
//! transactions. The refused names differ between releases, so a key may have been fine before an
//! upgrade of the agent.

use semaphore_core::adapter::Request;
use semaphore_core::sans_io::Response;
use semaphore_core::{Lost, RequestError};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::election::{assert_only_key_left, leader};
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
    let most = 65;
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
