//! The words of a test: who holds, who waits, who leads, and what is left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use semaphore_core::{Election, Lost, Semaphore};
use transport_mock::MockConsul;

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
