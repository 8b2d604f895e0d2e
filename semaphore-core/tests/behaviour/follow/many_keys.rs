//! The followers of many elections of one client are looked after together: what that costs, what
//! each of them still learns, and how soon.

use core::time::Duration;
use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Client, Discovery, Follower, LeaderEvent, Leadership};
use transport_mock::{Fault, MockConsul, Rule, Task};

use crate::client::client;
use crate::client::together::{checks, polls};
use crate::election::shared_sessions::{election_of, key, lead_each};
use crate::support::spy::Spy;
use crate::support::stranger::operate;
use crate::support::*;

/// More than can have separate polls.
const MANY: usize = 40;

/// Long enough for several polls.
const A_WHILE: u64 = 45;

/// The value of the next leader that it is told.
async fn next_leader(mut follower: Follower) -> (Follower, String) {
    loop {
        if let Some(Ok(LeaderEvent::Elected(leader) | LeaderEvent::ValueChanged(leader))) =
            follower.next().await
        {
            let text = leader.text().expect("text").to_owned();
            return (follower, text);
        }
    }
}

/// One client leads that many elections, and another one follows each of them.
struct Scene {
    world: MockConsul,
    leader: Client,
    follower: Client,
    terms: Vec<Leadership>,
    waiting: Vec<Option<Task<(Follower, String)>>>,
}

impl Scene {
    fn of(elections: usize) -> Self {
        Self::with(MockConsul::new(1), elections)
    }

    fn with(world: MockConsul, elections: usize) -> Self {
        let (leader, follower) = (client(&world, "leader"), client(&world, "follower"));
        let terms = lead_each(&world, &leader, elections);
        let wait = |number| {
            let follower = discovery(&follower, number).follow();
            let (follower, value) = world.run(next_leader(follower));
            assert_eq!(value, "test");
            Some(world.start(next_leader(follower)))
        };
        let waiting = (0..elections).map(wait).collect();
        world.advance(secs(20));
        Self {
            world,
            leader,
            follower,
            terms,
            waiting,
        }
    }

    /// The time from a change of the value until the follower knows.
    fn change(&mut self, number: usize) -> Duration {
        let world = &self.world;
        let set = self.terms[number].set_value("new");
        world.run(set).expect("set");
        let began = world.now();
        let waiting = self.waiting[number].take().expect("it waits");
        let (follower, value) = world.run(waiting);
        assert_eq!(value, "new");
        let took = world.now().saturating_since(began);
        self.waiting[number] = Some(world.start(next_leader(follower)));
        took
    }
}

fn discovery(client: &Client, number: usize) -> Discovery {
    client.discovery(key(number)).expect("a key")
}

#[test]
fn of_a_hundred_each_learns_of_a_change_within_a_second() {
    let mut scene = Scene::of(100);
    for number in 0..100 {
        let took = scene.change(number);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}

/// What is looked after together is asked about once a second, up to 2,000 of them.
#[test]
#[ignore = "long: scripts/nightly runs it"]
fn of_more_than_two_thousand_each_learns_of_a_change_within_two_seconds() {
    let mut scene = Scene::of(2_100);
    let mut longest = Duration::ZERO;
    for number in (0..2_100).step_by(97) {
        let took = scene.change(number);
        assert!(took <= millis(2_050), "{number}: {took:?}");
        longest = longest.max(took);
    }
    // Otherwise the scene is too small to show anything.
    assert!(longest > millis(1_050), "{longest:?}");
}

#[test]
fn the_first_sixteen_poll_and_learn_at_once() {
    let mut scene = Scene::of(MANY);
    let spy = Spy::on_host(&scene.world, "follower");
    scene.world.advance(secs(A_WHILE));
    let polled: BTreeSet<_> = spy
        .requests()
        .iter()
        .filter(|it| polls(it))
        .filter_map(|it| it.target().split('?').next().map(str::to_owned))
        .collect();
    assert_eq!(polled.len(), 16, "{polled:?}");
    let at_once = (0..MANY).map(|number| scene.change(number) < millis(100));
    assert!(at_once.filter(|it| *it).count() >= 16);
}

#[test]
fn five_hundred_ask_for_less_than_fourteen_requests_a_second() {
    let scene = Scene::of(500);
    let spy = Spy::on_host(&scene.world, "follower");
    scene.world.advance(secs(60));
    let (sent, asked) = (spy.requests().len(), spy.count(checks));
    assert!(asked <= 8 * 61, "{asked} checks in a minute");
    assert!(sent < 14 * 60, "{sent} in a minute");
}

#[test]
fn a_new_leader_is_announced_to_those_who_do_not_poll_too() {
    let mut scene = Scene::of(MANY);
    let other = client(&scene.world, "other");
    let term = scene.terms.remove(30);
    scene.world.run(term.resign()).expect("resigned");
    let election = semaphore_core::Election::builder(key(30)).value("other");
    let election = election.connect(other).expect("valid settings");
    let _term = scene.world.run(election.campaign()).expect("elected");
    let began = scene.world.now();
    let waiting = scene.waiting[30].take().expect("it waits");
    assert_eq!(scene.world.run(waiting).1, "other");
    let took = scene.world.now().saturating_since(began);
    assert!(took <= millis(1_050), "{took:?}");
}

#[test]
fn a_deleted_key_is_told_within_a_second() {
    for number in [3, 30] {
        let mut scene = Scene::of(MANY);
        scene.waiting[number].take().expect("it waits").abort();
        let mut follower = discovery(&scene.follower, number).follow();
        scene
            .world
            .run(follower.next())
            .expect("an item")
            .expect("a leader");
        let waiting = scene.world.start(async move { follower.next().await });
        scene.world.advance(secs(20));
        let path = format!("/v1/kv/{}", key(number));
        operate(&scene.world, Method::Delete, &path, "");
        let began = scene.world.now();
        let told = scene.world.run(waiting).expect("an item");
        assert!(
            matches!(told, Ok(LeaderEvent::Leaderless { last_value: None })),
            "{told:?}"
        );
        let took = scene.world.now().saturating_since(began);
        assert!(took <= millis(1_050), "{took:?}");
    }
}

/// On 1.8.7 a poll of a missing key is answered at each write of any key.
#[test]
fn missing_keys_are_looked_after_too_and_their_first_leader_is_told_within_a_second() {
    let world = MockConsul::new(1);
    let (leader, client) = (client(&world, "leader"), client(&world, "follower"));
    let followers = (0..MANY).map(|number| {
        let follower = discovery(&client, number).follow();
        world.start(next_leader(follower))
    });
    let followers: Vec<_> = followers.collect();
    world.advance(secs(20));
    let spy = Spy::on_host(&world, "follower");
    world.advance(secs(A_WHILE));
    let asked = spy.count(checks);
    assert!((40..=50).contains(&asked), "{asked}");
    assert!(spy.count(polls) <= 16 * 10, "{}", spy.count(polls));
    for (number, follower) in followers.into_iter().enumerate() {
        let _term = world.run(election_of(&leader, number).campaign());
        let began = world.now();
        assert_eq!(world.run(follower).1, "test");
        let took = world.now().saturating_since(began);
        assert!(took <= millis(1_050), "{number}: {took:?}");
    }
}

#[test]
fn who_is_cut_off_says_so_within_the_age_that_is_allowed_and_resumes() {
    let world = MockConsul::new(1);
    let (leader, client) = (client(&world, "leader"), client(&world, "follower"));
    let _terms = lead_each(&world, &leader, MANY);
    let followers = (0..MANY).map(|number| {
        let mut follower = discovery(&client, number).follow();
        world
            .run(follower.next())
            .expect("an item")
            .expect("a leader");
        let told = world.start(async move {
            let told = follower.next().await;
            (follower, told)
        });
        (number, told)
    });
    let followers: Vec<_> = followers.collect();
    world.advance(secs(60));
    world.partition("follower");
    let began = world.now();
    let mut cut_off = Vec::new();
    for (number, told) in followers {
        let (mut follower, told) = world.run(told);
        let took = world.now().saturating_since(began);
        assert!(
            matches!(told, Some(Ok(LeaderEvent::Interrupted(_)))),
            "{number}: {told:?}"
        );
        assert!(took <= secs(16), "{number}: {took:?}");
        cut_off.push(world.start(async move { follower.next().await }));
    }
    world.advance(secs(60));
    world.heal("follower");
    for told in cut_off {
        let told = world.run(told);
        assert!(matches!(told, Some(Ok(LeaderEvent::Resumed))), "{told:?}");
    }
}

/// Many elections, each with a follower that has been told its leader.
fn followed(world: &MockConsul) -> (Vec<Leadership>, Vec<Follower>) {
    let (leader, client) = (client(world, "leader"), client(world, "follower"));
    let terms = lead_each(world, &leader, MANY);
    let follow = |number| {
        let mut follower = discovery(&client, number).follow();
        let told = world.run(follower.next()).expect("an item");
        told.expect("a leader");
        follower
    };
    (terms, (0..MANY).map(follow).collect())
}

#[test]
fn its_knowledge_is_never_older_than_is_allowed() {
    let world = MockConsul::new(1);
    let (_terms, mut followers) = followed(&world);
    for _ in 0..60 {
        for follower in &mut followers {
            let told = world.run(async { follower.next().now_or_never() });
            assert!(told.is_none(), "{told:?}");
        }
        world.advance(millis(500));
        for follower in &followers {
            assert!(
                follower.age().is_some_and(|age| age <= secs(15)),
                "{follower:?}"
            );
        }
    }
}

#[test]
fn nothing_is_sent_while_nobody_waits() {
    let mut scene = Scene::of(MANY);
    for waiting in &mut scene.waiting {
        waiting.take().expect("it waits").abort();
    }
    let follower = discovery(&scene.follower, 7).follow();
    scene.world.advance(secs(30));
    let spy = Spy::on_host(&scene.world, "follower");
    scene.world.advance(secs(60));
    assert!(spy.requests().is_empty(), "{:?}", spy.requests());
    assert_eq!(scene.world.run(next_leader(follower)).1, "test");
}

/// The future of `next` is dropped, and the follower is kept.
#[test]
fn who_stops_waiting_costs_nothing_after_a_while() {
    let world = MockConsul::new(1);
    let (_terms, mut followers) = followed(&world);
    for follower in &mut followers {
        let told = world.run(async { follower.next().now_or_never() });
        assert!(told.is_none(), "{told:?}");
    }
    world.advance(secs(40));
    let spy = Spy::on_host(&world, "follower");
    world.advance(secs(60));
    assert!(spy.requests().is_empty(), "{:?}", spy.requests());
    assert_eq!(followers.len(), MANY);
}

#[test]
fn a_follower_outlives_its_client() {
    let mut scene = Scene::of(MANY);
    scene.world.run(scene.follower.shutdown());
    for number in [3, 30] {
        assert!(scene.change(number) <= millis(1_050));
    }
    let late = discovery(&scene.follower, 7).follow();
    assert_eq!(scene.world.run(next_leader(late)).1, "test");
    drop(scene.follower);
    scene.follower = client(&scene.world, "another");
    for number in [5, 35] {
        assert!(scene.change(number) <= millis(1_050));
    }
    let Scene { world, leader, .. } = scene;
    drop(leader);
    world.advance(secs(1));
}

#[test]
fn when_all_are_gone_so_is_the_driver() {
    let scene = Scene::of(MANY);
    let Scene {
        world,
        leader,
        follower,
        terms,
        waiting,
    } = scene;
    drop(follower);
    for waiting in waiting.into_iter().flatten() {
        waiting.abort();
    }
    drop((leader, terms));
    world.advance(secs(5));
    let spy = Spy::on(&world);
    world.advance(secs(60));
    assert!(spy.requests().is_empty(), "{:?}", spy.requests());
    assert_eq!(session_count(&world), 0);
}

#[test]
fn who_follows_again_is_told_the_present() {
    let mut scene = Scene::of(MANY);
    for number in [3, 30] {
        scene.waiting[number].take().expect("it waits").abort();
        let set = scene.terms[number].set_value("new");
        scene.world.run(set).expect("set");
        let again = discovery(&scene.follower, number).follow();
        assert_eq!(scene.world.run(next_leader(again)).1, "new");
    }
}

#[test]
fn the_followers_of_an_election_of_the_client_are_looked_after_too() {
    let world = MockConsul::new(1);
    let (leader, follower) = (client(&world, "leader"), client(&world, "follower"));
    let terms = lead_each(&world, &leader, MANY);
    let waiting: Vec<_> = (0..MANY)
        .map(|number| {
            let follower = election_of(&follower, number).leaders();
            let (follower, _) = world.run(next_leader(follower));
            world.start(next_leader(follower))
        })
        .collect();
    world.advance(secs(20));
    let spy = Spy::on_host(&world, "follower");
    world.advance(secs(10));
    assert!(spy.count(checks) >= 9, "{:?}", spy.requests());
    for (term, waiting) in terms.iter().zip(waiting) {
        world.run(term.set_value("new")).expect("set");
        assert_eq!(world.run(waiting).1, "new");
    }
}

#[test]
fn where_transactions_of_reads_are_refused_each_polls() {
    let world = MockConsul::new(1);
    let refused = Fault::Answer(Response::new(501, "not here"));
    world.inject(Rule::new(refused).always().matching(checks));
    let mut scene = Scene::with(world, MANY);
    let spy = Spy::on_host(&scene.world, "follower");
    scene.world.advance(secs(A_WHILE));
    assert_eq!(spy.count(checks), 0);
    for number in [3, 30] {
        assert!(scene.change(number) < millis(100));
    }
}
