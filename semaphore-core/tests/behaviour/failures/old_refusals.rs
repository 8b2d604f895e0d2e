//! Nobody fails by the refusal of something that was sent before it came: a token may have been replaced meanwhile, or
//! a gateway gone (invariant L4). Chaos found it.

use semaphore_core::{Client, Election, Error, RequestError, Semaphore};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::*;

/// A world whose agent answers the first request of this kind late. The token may do nothing.
fn world(kind: RequestKind, policy: Policy) -> MockConsul {
    let world = MockConsul::new(5);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("token", policy);
    });
    world.inject(Rule::new(Fault::DelayAnswer(millis(100))).kind(kind));
    world
}

/// What the token may not do, and the kind of request that is refused.
fn refusals() -> [(RequestKind, Policy); 2] {
    let no_sessions = Policy::new().with_key_prefix("service", Access::Write);
    let no_writes = Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service", Access::Read);
    [
        (RequestKind::SessionCreate, no_sessions),
        (RequestKind::Txn, no_writes),
    ]
}

/// A world for each refusal, once for a handle that is alone and once for one of a client.
fn worlds() -> impl Iterator<Item = (MockConsul, usize)> {
    refusals()
        .into_iter()
        .flat_map(|(kind, policy)| (0..2).map(move |at| (world(kind, policy.clone()), at)))
}

fn client(world: &MockConsul) -> Client {
    let client = Client::builder().token("token");
    client.connect(world.client("a")).expect("valid options")
}

fn semaphores(world: &MockConsul) -> [Semaphore; 2] {
    let lone = builder(2).token("token").connect(world.client("a"));
    let shared = builder(2).connect(client(world));
    [lone, shared].map(|it| it.expect("valid settings"))
}

fn elections(world: &MockConsul) -> [Election; 2] {
    let builder = || Election::builder("service/leader");
    let lone = builder().token("token").connect(world.client("a"));
    let shared = builder().connect(client(world));
    [lone, shared].map(|it| it.expect("valid settings"))
}

/// The token may do everything from now on.
fn allow(world: &MockConsul) {
    world.consul(|consul, _| consul.add_token("token", Policy::management()));
}

#[track_caller]
fn assert_denied<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    let is_denied = matches!(outcome, Err(Error::Request(RequestError::Denied { .. })));
    assert!(is_denied, "{outcome:?}");
}

#[test]
fn a_caller_does_not_fail_by_what_another_sent_who_has_gone() {
    for (world, at) in worlds() {
        let semaphore = semaphores(&world)[at].clone();
        let gone = world.start({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire().await }
        });
        world.advance(millis(50));
        gone.abort();
        allow(&world);
        let permit = world.run(semaphore.acquire());
        let permit = permit.unwrap_or_else(|error| panic!("{error}\n{}", world.trace()));
        world.run(permit.release()).expect("released");
        assert_eq!(world.pending_rules(), 0);
    }
}

#[test]
fn a_caller_does_not_fail_by_what_another_sent_who_waits() {
    for (world, at) in worlds() {
        let semaphore = semaphores(&world)[at].clone();
        let first = world.start({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire().await }
        });
        world.advance(millis(50));
        allow(&world);
        let permit = world.run(semaphore.acquire());
        let permit = permit.unwrap_or_else(|error| panic!("{error}\n{}", world.trace()));
        // It may have been served by the session of the second one meanwhile.
        match world.run(first) {
            Ok(permit) => world.run(permit.release()).expect("released"),
            refused => assert_denied(&refused),
        }
        world.run(permit.release()).expect("released");
        assert_eq!(world.pending_rules(), 0);
    }
}

#[test]
fn a_candidate_does_not_fail_by_what_another_sent_who_has_gone() {
    for (world, at) in worlds() {
        let election = elections(&world)[at].clone();
        let gone = world.start({
            let election = election.clone();
            async move { election.campaign().await }
        });
        world.advance(millis(50));
        gone.abort();
        allow(&world);
        let leadership = world.run(election.campaign());
        let leadership = leadership.unwrap_or_else(|error| panic!("{error}\n{}", world.trace()));
        world.run(leadership.resign()).expect("resigned");
    }
}

#[test]
fn a_candidate_does_not_fail_by_what_another_sent_who_waits() {
    for (world, at) in worlds() {
        let election = elections(&world)[at].clone();
        let first = world.start({
            let election = election.clone();
            async move { election.campaign().await }
        });
        world.advance(millis(50));
        allow(&world);
        let leadership = world.run(election.campaign());
        let leadership = leadership.unwrap_or_else(|error| panic!("{error}\n{}", world.trace()));
        assert_denied(&world.run(first));
        world.run(leadership.resign()).expect("resigned");
    }
}
