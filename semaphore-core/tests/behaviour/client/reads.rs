//! Many contenders that only hold are watched together. What that costs, and what each of them
//! still learns, and how soon.

use semaphore_core::sans_io::Method;
use semaphore_core::{Client, Lost, Permit};
use transport_mock::MockConsul;

use crate::client::together::{checks, polls, proves};
use crate::client::{client, hold_each, numbered, session_of};
use crate::support::spy::Spy;
use crate::support::steps::verbs;
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

/// More than can have separate polls.
const MANY: usize = 40;

/// Long enough for several polls.
const A_WHILE: u64 = 45;

/// That many are held, and their earlier polls have ended.
fn held(world: &MockConsul, semaphores: usize) -> (Client, Vec<Permit>) {
    let client = client(world, "a");
    let permits = hold_each(world, &client, semaphores);
    world.advance(secs(20));
    (client, permits)
}

#[test]
fn of_many_that_only_hold_nobody_polls() {
    let world = MockConsul::new(1);
    let (_client, permits) = held(&world, MANY);
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert_eq!(spy.count(polls), 0, "{}", world.trace());
    // Each has two operations and a transaction has 64. There are four rounds per TTL of 15 s, or
    // one in each second.
    let asked = spy.count(proves);
    assert!((88..=98).contains(&asked), "{asked}");
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
}

/// Their keys and records are read in five requests a second at most, beside the renewals of the
/// session.
fn ask_little_for(semaphores: usize) {
    let world = MockConsul::new(1);
    let (_client, permits) = held(&world, semaphores);
    let spy = Spy::on(&world);
    world.advance(secs(60));
    let sent = spy.requests().len();
    let most = (5 + 1) * 60 + 6;
    assert!(sent < most, "{sent} in a minute");
    assert!(spy.count(checks) <= semaphores * 6 / 10);
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
}

#[test]
fn two_hundred_ask_for_about_six_requests_a_second_at_most() {
    ask_little_for(200);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn a_thousand_ask_for_less_than_sixteen_requests_a_second() {
    ask_little_for(1_000);
}

#[test]
fn an_eviction_is_learned_within_a_quarter_of_the_ttl() {
    for evict in [from_record, key] {
        let world = MockConsul::new(1);
        let (_client, permits) = held(&world, MANY);
        evict(&world, &permits[7]);
        let began = world.now();
        let lost = world.run(permits[7].lost());
        assert!(
            matches!(
                lost,
                Lost::RemovedFromHolders { .. } | Lost::SessionGone { .. }
            ),
            "{lost:?}"
        );
        let took = world.now().saturating_since(began);
        assert!(took <= secs(15) / 4 + millis(50), "{took:?}");
        let others = permits.iter().enumerate().filter(|(at, _)| *at != 7);
        assert!(others.map(|(_, it)| it).all(Permit::is_held));
        drop(permits);
    }
}

/// An operator removes the holder from the record.
fn from_record(world: &MockConsul, _: &Permit) {
    let record = r#"{"Limit":3,"Holders":{}}"#;
    let target = "/v1/kv/service/7/.lock?flags=16210313421097356768";
    operate(world, Method::Put, target, record);
}

/// An operator deletes the holder's key.
fn key(world: &MockConsul, permit: &Permit) {
    let key = format!("/v1/kv/service/7/{}", session_of(permit));
    operate(world, Method::Delete, &key, "");
}

#[test]
fn a_record_that_changes_for_others_keeps_its_holder() {
    let world = MockConsul::new(1);
    let (_client, permits) = held(&world, MANY);
    let other = client(&world, "b");
    for _ in 0..5 {
        let turn = world.run(numbered(&other, 7).acquire()).expect("a slot");
        world.advance(secs(3));
        world.run(turn.release()).expect("released");
    }
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
}

#[test]
fn those_who_wait_beside_it_poll_and_learn_of_their_turn_at_once() {
    let world = MockConsul::new(1);
    let (client, mut permits) = held(&world, MANY);
    let other = crate::client::client(&world, "b");
    let rest: Vec<_> = (0..2)
        .map(|_| world.run(numbered(&other, 7).acquire()).expect("a slot"))
        .collect();
    let waits = numbered(&client, 7);
    let waits = world.start(async move { waits.acquire().await });
    world.advance(secs(30));
    let began = world.now();
    drop(rest);
    let granted = world.run(waits).expect("a slot");
    let took = world.now().saturating_since(began);
    assert!(took < millis(200), "{took:?}");
    assert!(permits.iter().all(Permit::is_held));
    world.run(granted.release()).expect("released");
    permits.clear();
}

#[test]
fn a_release_among_many_is_as_quick_as_alone() {
    let world = MockConsul::new(1);
    let (_client, mut permits) = held(&world, MANY);
    let spy = Spy::on(&world);
    world.run(permits.remove(7).release()).expect("released");
    let sent = spy.requests().iter().filter(|it| !checks(it)).count();
    assert!(sent <= 2, "{sent}");
    drop(permits);
}

/// Their keys are too long for one request to ask for many of them.
#[test]
fn names_as_long_as_may_be_are_asked_for_one_by_one() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let long = "x".repeat(3_000);
    let permits: Vec<_> = (0..20)
        .map(|number| {
            let semaphore = client.semaphore(format!("{long}/{number}"), 16);
            let semaphore = semaphore.expect("valid settings");
            world.run(semaphore.acquire_many(15)).expect("slots")
        })
        .collect();
    world.advance(secs(20));
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert_eq!(spy.count(polls), 0);
    let asked = spy.requests().into_iter().filter(checks);
    assert!(asked.map(|it| verbs(&it).len()).all(|asked| asked > 0));
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
}

#[test]
fn through_an_outage_shorter_than_the_lease_all_hold_on_and_are_looked_after_again() {
    let world = MockConsul::new(1);
    let (_client, permits) = held(&world, MANY);
    world.partition("a");
    world.advance(secs(8));
    world.heal("a");
    world.advance(secs(10));
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert!(spy.count(proves) >= 24);
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
}

#[test]
fn a_stranger_that_enters_costs_the_holder_nothing() {
    let world = MockConsul::new(1);
    let (_client, permits) = held(&world, MANY);
    let stranger = Stranger::session(&world);
    stranger.acquires(&world, &format!("service/7/{}", stranger.session));
    world.advance(secs(30));
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
}
