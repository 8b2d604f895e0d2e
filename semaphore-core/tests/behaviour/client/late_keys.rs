//! Keys that were given up and may arrive late. A session that serves others lives on; one that
//! serves nobody ends.

use semaphore_core::{Client, Error};
use transport_mock::consul::{Access, Entry, Policy};
use transport_mock::{Fault, MockConsul, Rule};

use super::{client, numbered, session_of};
use crate::support::steps::ties_key;
use crate::support::*;

/// One entry gets no answer, so it may arrive late.
fn lose_an_entry(world: &MockConsul) {
    world.inject(Rule::new(Fault::LoseRequest).matching(ties_key).times(1));
}

#[test]
fn a_session_on_which_nothing_stands_but_what_may_come_late_ends_at_once() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    lose_an_entry(&world);
    let permit = world.run(numbered(&client, 0).acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    world.advance(millis(100));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
    let keys = world.consul(|consul, _| consul.entries("service/0/").count());
    assert_eq!(keys, 1, "the record alone\n{}", world.trace());
    // Nothing is looked for either.
    let before = world.stats().total_requests();
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), before, "{}", world.trace());
}

#[test]
fn it_ends_with_the_last_hold_of_another_semaphore() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = world.run(numbered(&client, 0).acquire()).expect("a slot");
    lose_an_entry(&world);
    let permit = world.run(numbered(&client, 1).acquire()).expect("a slot");
    assert_eq!(session_of(&permit), session_of(&holds));
    world.run(permit.release()).expect("released");
    world.advance(secs(5));
    assert!(holds.is_held());
    world.run(holds.release()).expect("released");
    world.advance(secs(2));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

/// The session serves another semaphore, so it lives on, and a late key would live as long.
#[test]
fn a_shutdown_waits_for_what_may_come_late_and_fails_only_at_the_end_of_its_time() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = world.run(numbered(&client, 0).acquire()).expect("a slot");
    lose_an_entry(&world);
    let semaphore = numbered(&client, 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    assert_eq!(session_of(&permit), session_of(&holds));
    world.run(permit.release()).expect("released");
    let start = world.now();
    let late = world.run(semaphore.shutdown_timeout(secs(3)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    assert_eq!(world.now().saturating_since(start), secs(3));
    world
        .run(semaphore.shutdown_timeout(secs(60)))
        .expect("nothing came");
    assert!(world.now().saturating_since(start) < secs(30));
    assert!(holds.is_held());
}

#[test]
fn a_shutdown_without_a_time_out_waits_for_what_may_come_late_too() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let holds = world.run(numbered(&client, 0).acquire()).expect("a slot");
    lose_an_entry(&world);
    let semaphore = numbered(&client, 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    world.run(semaphore.shutdown());
    world
        .run(semaphore.shutdown_timeout(secs(1)))
        .expect("nothing is left");
    assert!(holds.is_held());
}

/// Consul's next leader gives each session its whole time again. So after two TTLs without a leader
/// an unused session still lives, and nothing but its TTL ends it.
#[test]
fn an_unused_session_is_destroyed_after_an_outage_of_any_length() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let permit = world.run(numbered(&client, 0).acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_eq!(session_count(&world), 1, "it is kept for a moment");
    world.partition("a");
    world.lose_leader();
    world.advance(secs(40));
    world.elect_leader();
    world.heal("a");
    world.advance(secs(10));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

/// A client whose token has all permissions, for now. Reads that leave something out say so.
fn with_token(world: &MockConsul, host: &str) -> Client {
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.set_acl_reports_filtering(true);
        consul.add_token(host, Policy::management());
    });
    let builder = Client::builder().token(host);
    builder.connect(world.client(host)).expect("valid options")
}

fn permit(world: &MockConsul, policy: Policy) {
    world.consul(|consul, _| consul.add_token("a", policy));
}

fn contender_keys_of(world: &MockConsul, number: usize) -> Vec<String> {
    world.consul(|consul, _| {
        let directory = format!("service/{number}/");
        let keys = consul.entries(&directory).map(Entry::key);
        keys.filter(|key| !key.ends_with("/.lock")).collect()
    })
}

#[test]
fn whoever_is_told_that_the_view_is_incomplete_asks_anew_next_time() {
    let world = MockConsul::new(1);
    let client = with_token(&world, "a");
    let hidden = Policy::management().with_key_prefix("service/1/", Access::Deny);
    // Another contender holds, which the token may not see.
    let broom = numbered(&with_token(&world, "b"), 1);
    let others = world.run(broom.acquire()).expect("a slot");
    permit(&world, hidden);
    let semaphore = numbered(&client, 1);
    let error = world.run(semaphore.acquire()).expect_err("hidden");
    assert!(
        matches!(error, Error::IncompleteView { .. } | Error::Request(_)),
        "{error:?}"
    );
    world.advance(secs(5));
    permit(&world, Policy::management());
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(async {
        permit.release().await.expect("released");
        others.release().await.expect("released");
    });
    world.advance(KEPT);
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn a_key_that_may_not_be_seen_for_a_while_is_deleted_afterwards() {
    let world = MockConsul::new(1);
    let client = with_token(&world, "a");
    let holds = world.run(numbered(&client, 0).acquire()).expect("a slot");
    world.inject(Rule::new(Fault::LoseAnswer).matching(ties_key).times(1));
    let waiter = numbered(&client, 1);
    let waiting = world.start(async move { waiter.acquire().await });
    while contender_keys_of(&world, 1).is_empty() {
        world.advance(millis(1));
    }
    let key = contender_keys_of(&world, 1).remove(0);
    permit(&world, Policy::management().with_key(&key, Access::Deny));
    waiting.abort();
    world.advance(secs(10));
    permit(&world, Policy::management());
    world.advance(secs(60));
    assert_eq!(contender_keys_of(&world, 1), [""; 0], "{}", world.trace());
    assert!(holds.is_held());
}

/// The earlier contender used a session that has ended. It returns that session a moment later.
#[test]
fn a_turn_that_begins_while_the_one_before_settles_keeps_its_session() {
    for after in 0..80 {
        let world = MockConsul::new(1);
        world.set_latency(millis(5)..=millis(5));
        let client = client(&world, "a");
        let semaphore = numbered(&client, 0);
        lose_an_entry(&world);
        let permit = world.run(semaphore.acquire()).expect("a slot");
        let session = session_of(&permit);
        world.consul(|consul, now| consul.destroy_session(now, &session));
        world.run(permit.lost());
        drop(permit);
        world.advance(millis(after));
        let again = world.run(semaphore.acquire()).expect("a slot");
        world.advance(secs(60));
        assert!(again.is_held(), "after {after} ms\n{}", world.trace());
        world.run(again.release()).expect("released");
        world.advance(KEPT);
        assert_eq!(session_count(&world), 0, "after {after} ms");
    }
}
