//! The words of a test: who holds, waits and leads, and what is left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use transport_mock::adapter::{Method, Request, Transport as _, TransportErrorKind};
use transport_mock::{Election, Error, Fault, Lost, MockConsul, RequestKind, Rule, Semaphore};

fn semaphore(world: &MockConsul, host: &str) -> Semaphore {
    let builder = Semaphore::builder("service/db", 1).value(host);
    builder.connect(world.client(host)).unwrap()
}

#[test]
fn a_world_says_who_holds_and_who_waits() {
    let world = MockConsul::new(7);
    assert!(world.holders("service/db").is_empty());
    let permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    let other = semaphore(&world, "b");
    let _waiting = world.start(async move { other.acquire().await });
    world.advance(Duration::from_secs(1));
    let requests = world.stats().total_requests();
    assert_eq!(world.holders("service/db"), ["a"]);
    assert_eq!(world.waiters("service/db"), ["b"]);
    assert_eq!(world.stats().total_requests(), requests);

    world.lose_leader();
    world.consul(|consul, _| consul.set_acl_default_deny());
    assert_eq!(world.holders("service/db"), ["a"], "whatever clients see");
    drop(permit);
}

#[test]
fn a_session_ends_by_the_value_of_its_holder() {
    let world = MockConsul::new(7);
    let permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    world.expire_session("a");
    assert!(matches!(world.run(permit.lost()), Lost::SessionGone { .. }));
}

#[test]
#[should_panic(expected = "no session is b's")]
fn a_session_that_is_not_there_does_not_end() {
    let world = MockConsul::new(7);
    let _permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    world.expire_session("b");
}

#[test]
fn a_world_says_who_leads_until_nobody_does() {
    let world = MockConsul::new(7);
    let key = "service/db/leader";
    assert_eq!(world.leader(key), None);
    let builder = Election::builder(key).value("10.0.0.1:5432");
    let election = builder.connect(world.process("a")).unwrap();
    let leadership = world.run(election.campaign()).unwrap();
    assert_eq!(world.leader(key).as_deref(), Some("10.0.0.1:5432"));
    world.run(leadership.resign()).unwrap();
    world.run(election.shutdown());
    assert_eq!(world.leader(key), None);
    world.assert_nothing_left(key);
}

#[test]
fn nothing_is_left_after_a_shutdown() {
    let world = MockConsul::new(7);
    let semaphore = semaphore(&world, "a");
    let permit = world.run(semaphore.acquire()).unwrap();
    world.run(permit.release()).unwrap();
    world.run(semaphore.shutdown());
    world.assert_nothing_left("service/db");
}

#[test]
#[should_panic(expected = "of service/db there is left: [\"key service/db/")]
fn what_is_held_is_left() {
    let world = MockConsul::new(7);
    let _permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    world.assert_nothing_left("service/db");
}

#[test]
fn a_host_that_is_killed_gives_nothing_back_and_the_next_process_on_it_goes_on() {
    let world = MockConsul::new(7);
    let semaphore_of_a = semaphore(&world, "a");
    let permit = world.run(semaphore_of_a.acquire()).unwrap();
    let dead = world.client("a");
    world.kill("a");
    let error = world.run(semaphore_of_a.acquire()).unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    assert!(!permit.is_held());
    let write = Request::new(Method::Put, "/v1/kv/k");
    let error = world.run(dead.send(write)).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::NotSent);
    drop(permit);
    world.advance(Duration::from_secs(10));
    assert_eq!(world.holders("service/db"), ["a"]);

    let again = semaphore(&world, "a");
    let permit = world.run(again.acquire()).unwrap();
    // PROMISES: 40 to 46 s after a crash.
    let since = world.now().since_origin().as_secs_f64();
    assert!((40.0..46.1).contains(&since), "{since}");
    world.run(permit.release()).unwrap();
}

#[test]
fn a_process_is_killed_with_its_host() {
    let world = MockConsul::new(7);
    let process = world.process("a");
    let program = world.start(process.living(std::future::pending::<()>()));
    let semaphore = Semaphore::builder("service/db", 1);
    let semaphore = semaphore.connect(process).unwrap();
    let _permit = world.run(semaphore.acquire()).unwrap();
    world.kill("a");
    assert_eq!(world.run(program), None);
    assert!(world.run(semaphore.acquire()).is_err());
}

#[test]
fn what_is_expected_is_waited_for() {
    let world = MockConsul::new(7);
    let permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    let other = semaphore(&world, "b");
    let waiting = world.start(async move { other.acquire().await });
    world.expire_session("a");
    let time = Duration::from_secs(20);
    let holds = |world: &MockConsul| world.holders("service/db") == ["b"];
    world.run(world.expect_within(time, "b holds", holds));
    drop((permit, waiting));
}

#[test]
#[should_panic(expected = "within 20s that b holds, and it does not hold. What happened:")]
fn an_expectation_that_is_not_met_fails_with_the_story() {
    let world = MockConsul::new(7);
    let _permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    let time = Duration::from_secs(20);
    let holds = |world: &MockConsul| world.holders("service/db") == ["b"];
    world.run(world.expect_within(time, "b holds", holds));
}

#[test]
fn the_story_tells_what_went_wrong_and_who_held_and_led() {
    let world = MockConsul::new(7);
    let builder = Election::builder("service/leader").value("x");
    let election = builder.connect(world.client("x")).unwrap();
    let leadership = world.run(election.campaign()).unwrap();
    let permit = world.run(semaphore(&world, "a").acquire()).unwrap();
    world.inject(Rule::new(Fault::LoseAnswer).kind(RequestKind::Txn));
    world.run(permit.release()).unwrap();
    world.kill("a");
    world.run(leadership.resign()).unwrap();
    world.run(election.shutdown());
    let story = world.story();
    let lines = story.lines().map(|line| line[13..].to_owned());
    let lines: Vec<_> = lines.collect();
    let expected = [
        "service/leader is led by x",
        "service/db is held by a",
        "! answer lost: PUT /v1/txn",
        "service/db is held by nobody",
        "a killed",
        "service/leader is led by nobody",
    ];
    assert_eq!(lines.len(), expected.len(), "{story}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{story}");
    }
    assert!(story.lines().count() * 3 < world.trace().lines().count());
}
