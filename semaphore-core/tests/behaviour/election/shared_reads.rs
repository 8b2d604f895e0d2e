//! Many elections of one client are watched together: what that costs, what each of them still
//! learns, and how soon.

use std::collections::BTreeSet;

use core::time::Duration;
use semaphore_core::sans_io::{Method, Request, Response};
use semaphore_core::{Client, Error, Leadership, Lost};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use super::shared_sessions::{election_of, found, key, lead_each, session_of};
use crate::client::client;
use crate::client::together::{checks, polls};
use crate::support::spy::Spy;
use crate::support::stranger::operate;
use crate::support::*;

/// More than can have separate polls.
const MANY: usize = 40;

/// Long enough for several polls.
const A_WHILE: u64 = 45;

/// One client leads that many elections, and their earlier polls have ended.
fn led(world: &MockConsul, elections: usize) -> (Client, Vec<Leadership>) {
    let client = client(world, "leader");
    let terms = lead_each(world, &client, elections);
    world.advance(secs(20));
    (client, terms)
}

#[test]
fn few_leaders_poll_for_themselves() {
    let world = MockConsul::new(1);
    let (_client, terms) = led(&world, 16);
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert_eq!(spy.count(checks), 0);
    assert!(spy.count(polls) >= 32);
    drop(terms);
}

#[test]
fn of_many_that_lead_nobody_polls() {
    let world = MockConsul::new(1);
    let (_client, terms) = led(&world, MANY);
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert_eq!(spy.count(polls), 0, "{}", world.trace());
    // Each has two operations and a transaction has 64. There are four rounds per TTL of 15 s.
    let asked = spy.count(checks);
    assert!((24..=30).contains(&asked), "{asked}");
    assert!(terms.iter().all(Leadership::is_leader));
    drop(terms);
}

#[test]
fn five_hundred_leaders_ask_for_less_than_nine_requests_a_second() {
    let world = MockConsul::new(1);
    let (_client, terms) = led(&world, 500);
    let spy = Spy::on(&world);
    world.advance(secs(60));
    let sent = spy.requests().len();
    assert!(sent < 9 * 60, "{sent} in a minute");
    assert!(terms.iter().all(Leadership::is_leader));
    drop(terms);
}

#[test]
fn the_end_of_a_term_is_learned_within_a_quarter_of_the_ttl() {
    for (end, is_as_told) in [
        (release as fn(&_, &_), is_released as fn(&Lost) -> bool),
        (delete, is_deleted),
        (overwrite, |_| true),
    ] {
        let world = MockConsul::new(1);
        let (_client, terms) = led(&world, MANY);
        end(&world, &terms[7]);
        let began = world.now();
        let lost = world.run(terms[7].lost());
        assert!(is_as_told(&lost), "{lost:?}");
        let took = world.now().saturating_since(began);
        assert!(took <= secs(15) / 4 + millis(50), "{took:?}");
        let others = terms.iter().enumerate().filter(|(at, _)| *at != 7);
        assert!(others.map(|(_, it)| it).all(Leadership::is_leader));
        drop(terms);
    }
}

fn is_released(lost: &Lost) -> bool {
    matches!(lost, Lost::KeyReleased { .. })
}

fn is_deleted(lost: &Lost) -> bool {
    matches!(lost, Lost::KeyDeleted { .. })
}

/// An operator takes the key from its leader.
fn release(world: &MockConsul, term: &Leadership) {
    let path = format!("/v1/kv/{}?release={}", key(7), session_of(term));
    operate(world, Method::Put, &path, "");
}

fn delete(world: &MockConsul, _: &Leadership) {
    operate(world, Method::Delete, &format!("/v1/kv/{}", key(7)), "");
}

fn overwrite(world: &MockConsul, _: &Leadership) {
    operate(world, Method::Put, &format!("/v1/kv/{}", key(7)), "theirs");
}

#[test]
fn a_new_value_is_shown_as_soon_as_alone_and_a_check_from_before_it_ends_nothing() {
    let world = MockConsul::new(1);
    let (_client, terms) = led(&world, MANY);
    let slow = Fault::DelayAnswer(millis(700));
    world.inject(Rule::new(slow).always().optional().matching(checks));
    for no in 0..100 {
        let began = world.now();
        let value = format!("value {no}");
        world.run(terms[7].set_value(value.as_str())).expect("set");
        let took = world.now().saturating_since(began);
        assert!(took < millis(100), "{took:?}");
        assert_eq!(found(&world, 7).expect("a key").value, value);
        world.advance(millis(130));
    }
    assert!(terms.iter().all(Leadership::is_leader));
    drop(terms);
}

#[test]
fn a_resignation_among_many_is_as_quick_as_alone() {
    let world = MockConsul::new(1);
    let (_client, mut terms) = led(&world, MANY);
    let spy = Spy::on(&world);
    world.run(terms.remove(7).resign()).expect("resigned");
    let sent = spy.requests().iter().filter(|it| !checks(it)).count();
    assert!(sent <= 1, "{sent}");
    drop(terms);
}

#[test]
fn when_few_lead_each_polls_again() {
    let world = MockConsul::new(1);
    let (_client, mut terms) = led(&world, MANY);
    for term in terms.drain(8..) {
        world.run(term.resign()).expect("resigned");
    }
    world.advance(secs(10));
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert_eq!(spy.count(checks), 0);
    assert!(spy.count(polls) >= 16);
    drop(terms);
}

#[test]
fn where_transactions_of_reads_are_refused_each_polls() {
    let world = MockConsul::new(1);
    let refused = Fault::Answer(Response::new(501, "not here"));
    world.inject(Rule::new(refused).always().matching(checks));
    let (_client, terms) = led(&world, MANY);
    let spy = Spy::on(&world);
    world.advance(secs(A_WHILE));
    assert_eq!(spy.count(checks), 0);
    assert!(terms.iter().all(Leadership::is_leader));
    delete(&world, &terms[7]);
    let lost = world.run(terms[7].lost());
    assert!(is_deleted(&lost), "{lost:?}");
    drop(terms);
}

/// After the restore of a snapshot, another leader's key may have the same index.
#[test]
fn each_reads_its_key_now_and_then() {
    let world = MockConsul::new(1);
    let (_client, terms) = led(&world, MANY);
    let spy = Spy::on(&world);
    world.advance(secs(300));
    let reads = spy.of(RequestKind::KvRead);
    for number in 0..MANY {
        let path = format!("/v1/kv/{}?", key(number));
        let of_it = |it: &&Request| it.target().starts_with(&path);
        let read = reads.iter().filter(of_it).count();
        assert!((1..=2).contains(&read), "{number}: {read}");
    }
    drop(terms);
}

/// One client leads that many elections, and another one campaigns for each of them.
struct Scene {
    world: MockConsul,
    _clients: [Client; 2],
    led: Vec<Option<Leadership>>,
    waiting: Vec<Option<Task<Result<Leadership, Error>>>>,
}

impl Scene {
    fn of(elections: usize) -> Self {
        let world = MockConsul::new(1);
        let (leader, terms) = led(&world, elections);
        let waiter = client(&world, "waiter");
        let wait = |number| {
            let election = election_of(&waiter, number);
            let waiting = world.start(async move { election.campaign().await });
            // One after the other, since an agent allows a host 200 connections and these don't
            // queue for them.
            world.advance(millis(10));
            Some(waiting)
        };
        let waiting = (0..elections).map(wait).collect();
        world.advance(secs(30));
        Self {
            _clients: [leader, waiter],
            led: terms.into_iter().map(Some).collect(),
            waiting,
            world,
        }
    }

    /// The time from the resignation until the next candidate leads.
    fn hand_over(&mut self, number: usize) -> Duration {
        let term = self.led[number].take().expect("it leads");
        self.world.run(term.resign()).expect("resigned");
        let began = self.world.now();
        let waiting = self.waiting[number].take().expect("it waits");
        let term = self.world.run(waiting).expect("elected");
        self.led[number] = Some(term);
        self.world.now().saturating_since(began)
    }

    /// The keys that candidates poll.
    fn polled(&self) -> BTreeSet<String> {
        let spy = Spy::on_host(&self.world, "waiter");
        self.world.advance(secs(A_WHILE));
        let polls = spy.requests().into_iter().filter(polls);
        let target = |it: Request| it.target().split('?').next().map(str::to_owned);
        polls.filter_map(target).collect()
    }
}

#[test]
fn of_a_hundred_candidates_each_leads_within_a_second_of_its_turn() {
    let mut scene = Scene::of(100);
    for number in 0..100 {
        let took = scene.hand_over(number);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}

#[test]
fn the_first_sixteen_candidates_poll_and_lead_at_once() {
    let mut scene = Scene::of(MANY);
    let polled = scene.polled();
    assert_eq!(polled.len(), 16, "{polled:?}");
    let at_once = (0..MANY).map(|number| scene.hand_over(number) < millis(100));
    assert!(at_once.filter(|it| *it).count() >= 16);
}

#[test]
fn a_hundred_candidates_ask_for_four_requests_a_second() {
    let scene = Scene::of(100);
    let spy = Spy::on_host(&scene.world, "waiter");
    scene.world.advance(secs(60));
    let asked = spy.count(checks);
    assert!(asked > 0 && asked <= 2 * 61, "{asked}");
    let sent = spy.requests().len();
    assert!(sent <= 4 * 60, "{sent} in a minute");
}

#[test]
fn through_an_outage_candidates_wait_on_and_are_looked_after_again() {
    let mut scene = Scene::of(MANY);
    scene.world.partition("waiter");
    scene.world.advance(secs(8));
    scene.world.heal("waiter");
    scene.world.advance(secs(15));
    for number in 30..MANY {
        let took = scene.hand_over(number);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}
