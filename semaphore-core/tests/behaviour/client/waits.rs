//! Many semaphores of one client with a waiter each: how soon a turn is known, and what that costs.

use core::time::Duration;
use std::collections::BTreeSet;

use semaphore_core::sans_io::{Request, Response};
use semaphore_core::{Client, Error, Permit, Semaphore};
use transport_mock::{Fault, MockConsul, MockProcess, Rule, Task};

use crate::client::together::{checks, polls};
use crate::client::{client, session_of};
use crate::support::aftermath::assert_recovered;
use crate::support::spy::Spy;
use crate::support::steps::{deletes_key, ties_key};
use crate::support::*;

/// The semaphore with that number. It has one slot.
fn single(client: &Client, number: usize) -> Semaphore {
    let semaphore = client.semaphore(format!("service/{number}"), 1);
    semaphore.expect("valid settings")
}

type Waiting = Task<Result<Permit, Error>>;

/// One client holds that many semaphores, and another client waits for each of them.
struct Scene {
    world: MockConsul,
    _clients: [Client; 2],
    held: Vec<Option<Permit>>,
    waiting: Vec<Option<Waiting>>,
}

impl Scene {
    fn of(semaphores: usize) -> Self {
        Self::in_world(MockConsul::new(1), semaphores)
    }

    fn in_world(world: MockConsul, semaphores: usize) -> Self {
        let clients = [client(&world, "holder"), client(&world, "waiter")];
        let acquire = |number| world.run(single(&clients[0], number).acquire());
        let held = (0..semaphores).map(|number| Some(acquire(number).expect("a slot")));
        let held = held.collect();
        let wait = |number| {
            let semaphore = single(&clients[1], number);
            let waiting = world.start(async move { semaphore.acquire().await });
            // One after the other, since an agent allows a host 200 connections and these don't
            // queue for them.
            world.advance(millis(10));
            Some(waiting)
        };
        let waiting = (0..semaphores).map(wait).collect();
        // The earlier polls have ended.
        world.advance(secs(30));
        Self {
            world,
            _clients: clients,
            held,
            waiting,
        }
    }

    /// The time from the release until the next contender has the slot.
    fn hand_over(&mut self, number: usize) -> Duration {
        let permit = self.held[number].take().expect("it is held");
        self.world.run(permit.release()).expect("released");
        self.granted(number)
    }

    /// The time from now until this contender has its slot.
    fn granted(&mut self, number: usize) -> Duration {
        let began = self.world.now();
        let waiting = self.waiting[number].take().expect("it waits");
        let permit = self.world.run(waiting).expect("a slot");
        self.held[number] = Some(permit);
        self.world.now().saturating_since(began)
    }
}

/// The prefixes below which something is polled.
fn polled(spy: &Spy) -> BTreeSet<String> {
    let polls = spy.requests().into_iter().filter(polls);
    let prefix = |it: Request| {
        let (prefix, _) = it.target().rsplit_once('/')?;
        Some(format!("{prefix}/"))
    };
    polls.filter_map(prefix).collect()
}

/// The path that the waiter for the semaphore with that number polls.
fn path(number: usize) -> String {
    format!("/v1/kv/service/{number}/")
}

#[test]
fn of_a_hundred_each_learns_of_its_turn_within_a_second() {
    let mut scene = Scene::of(100);
    for number in 0..100 {
        let took = scene.hand_over(number);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn of_a_thousand_each_learns_of_its_turn_within_a_second() {
    let mut scene = Scene::of(1_000);
    for number in (0..1_000).step_by(37) {
        let took = scene.hand_over(number);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}

#[test]
fn the_first_sixteen_poll_and_learn_of_their_turn_at_once() {
    let mut scene = Scene::of(40);
    let spy = Spy::on_host(&scene.world, "waiter");
    scene.world.advance(secs(45));
    let polled = polled(&spy);
    assert_eq!(polled.len(), 16, "{polled:?}");
    let at_once = (0..40).map(|number| scene.hand_over(number) < millis(100));
    assert!(at_once.filter(|it| *it).count() >= 16);
}

/// Per 32 semaphores at most one request per second, plus a few for their polls and lists. The
/// bytes are limited per semaphore.
fn ask_together(semaphores: usize) {
    let scene = Scene::of(semaphores);
    let spy = Spy::on_host(&scene.world, "waiter");
    scene.world.advance(secs(60));
    let together = semaphores.div_ceil(32);
    let asked = spy.count(checks);
    assert!(asked > 0 && asked <= together * 61, "{asked}");
    let sent = spy.requests().len();
    assert!(sent <= (together + 6) * 60, "{sent} in a minute");
    let bytes: usize = spy.requests().iter().map(|it| it.body().len()).sum();
    assert!(bytes <= semaphores * 60 * 256, "{bytes} bytes in a minute");
}

#[test]
fn a_hundred_ask_for_four_requests_a_second_and_few_lists() {
    ask_together(100);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn a_thousand_ask_for_thirty_two_requests_a_second_and_few_lists() {
    ask_together(1_000);
}

#[test]
fn when_one_that_polls_has_its_turn_another_polls() {
    let mut scene = Scene::of(20);
    let who_polls = |scene: &Scene| {
        let spy = Spy::on_host(&scene.world, "waiter");
        scene.world.advance(secs(45));
        let waiting = (0..20).filter(|number| scene.waiting[*number].is_some());
        let paths: BTreeSet<_> = waiting.map(path).collect();
        polled(&spy).intersection(&paths).count()
    };
    assert_eq!(who_polls(&scene), 16);
    for number in 0..4 {
        scene.hand_over(number);
    }
    assert_eq!(who_polls(&scene), 16);
}

/// Giving up does not change the record.
#[test]
fn who_waits_behind_one_that_gives_up_learns_of_its_turn_all_the_same() {
    let mut scene = Scene::of(40);
    let third = client(&scene.world, "third");
    let semaphore = single(&third, 30);
    let behind = scene.world.start(async move { semaphore.acquire().await });
    scene.world.advance(secs(5));
    scene.waiting[30].take().expect("it waits").abort();
    let permit = scene.held[30].take().expect("it is held");
    scene.world.run(permit.release()).expect("released");
    scene.waiting[30] = Some(behind);
    let took = scene.granted(30);
    assert!(took <= secs(1), "{took:?}");
}

#[test]
fn a_holder_that_dies_is_found_within_six_seconds() {
    let mut scene = Scene::of(40);
    let dead = scene.held[30].take().expect("it is held");
    let key = format!("/v1/kv/service/30/{}", session_of(&dead));
    core::mem::forget(dead);
    let world = scene.world.clone();
    stranger::operate(&world, semaphore_core::sans_io::Method::Delete, &key, "");
    let took = scene.granted(30);
    // Its key is gone at once. Its entry in the record is removed when it can't believe any longer: its
    // lock delay counts from when its death was noticed.
    assert!(took <= secs(15 + 6), "{took:?}");
}

#[test]
fn where_transactions_of_reads_are_refused_each_polls() {
    let world = MockConsul::new(1);
    let refused = Fault::Answer(Response::new(501, "not here"));
    world.inject(Rule::new(refused).always().matching(checks));
    let mut scene = Scene::in_world(world, 40);
    let spy = Spy::on_host(&scene.world, "waiter");
    scene.world.advance(secs(45));
    assert_eq!(spy.count(checks), 0);
    assert_eq!(polled(&spy).len(), 40);
    let took = scene.hand_over(30);
    assert!(took <= millis(200), "{took:?}");
}

#[test]
fn through_an_outage_they_wait_on_and_are_looked_after_again() {
    let mut scene = Scene::of(40);
    scene.world.partition("waiter");
    scene.world.advance(secs(8));
    scene.world.heal("waiter");
    scene.world.advance(secs(15));
    for number in 30..40 {
        let took = scene.hand_over(number);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}

/// The simulator found this (seed 17017201): a poll was faster than the answer to a release, and the dead holder was
/// not looked for any more.
#[test]
fn who_needs_the_slot_of_a_dead_holder_gets_it_though_a_poll_is_faster_than_a_release() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("dead"));
    let dead = builder(3).connect(process.clone());
    let dead = world.run(dead.expect("valid settings").acquire());
    let dead = dead.expect("a slot");
    let session = session_of(&dead);
    process.kill();
    world.consul(|consul, now| consul.destroy_session(now, &session));
    let client = Client::builder().value("test").own_polls(0);
    let client = client.connect(world.client("host")).expect("valid options");
    let semaphore = client.semaphore("service/db", 3).expect("valid settings");
    world.run(async {
        let first = semaphore.acquire().await.expect("a slot");
        let waiting = world.start(async move { semaphore.acquire_many(3).await });
        world.sleep(secs(1)).await;
        let late = Rule::new(Fault::DelayAnswer(millis(50)));
        world.inject(
            late.matching(|it| deletes_key(it) && !ties_key(it))
                .times(1),
        );
        first.release().await.expect("released");
        let began = world.now();
        let permits = waiting.await.expect("slots");
        let took = world.now().saturating_since(began);
        // Its lock delay is 15 s.
        assert!(took <= secs(15 + 6), "{took:?}");
        permits.release().await.expect("released");
    });
    assert_recovered(&world, 3);
}
