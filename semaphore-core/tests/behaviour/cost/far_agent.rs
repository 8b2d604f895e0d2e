//! The agent is 200 ms away, there and back. All promises hold, and a turn takes a certain number
//! of round trips.
//!
//! `cargo test -p behaviour far_agent -- --nocapture` prints the cost of turns.

use std::time::Duration;

use futures_util::future::join_all;
use semaphore_core::adapter::{Instant, Method};
use semaphore_core::{Permit, Semaphore};
use transport_mock::MockConsul;

use crate::support::election::{assert_only_key_left, election, leader};
use crate::support::stranger::operate;
use crate::support::*;

/// There and back.
const ROUND_TRIP: Duration = millis(200);

fn far() -> MockConsul {
    far_with(1)
}

fn far_with(seed: u64) -> MockConsul {
    let world = MockConsul::new(seed);
    world.set_latency(ROUND_TRIP / 2..=ROUND_TRIP / 2);
    world
}

/// How many round trips have passed since `start`.
fn round_trips(world: &MockConsul, start: Instant) -> f64 {
    let took = world.now().saturating_since(start);
    took.as_secs_f64() / ROUND_TRIP.as_secs_f64()
}

#[test]
fn slots_are_acquired_held_and_released() {
    let world = far();
    let semaphore = semaphore(&world, "a", 3);
    let permits = world.run(join_all((0..3).map(|_| semaphore.acquire())));
    let permits: Vec<_> = permits.into_iter().map(|it| it.expect("a slot")).collect();
    for _ in 0..300 {
        assert!(permits.iter().all(Permit::is_held));
        assert_eq!(holders(&world).len(), 3);
        world.advance(secs(1));
    }
    for permit in permits {
        world.run(permit.release()).expect("released");
    }
    world.advance(secs(5));
    assert_nothing_left(&world);
}

#[test]
fn never_more_than_the_limit_hold_and_everybody_has_turns() {
    for seed in 0..20 {
        let world = far_with(seed);
        let hosts: Vec<_> = (0..6)
            .map(|host| semaphore(&world, &format!("{host}"), 2))
            .collect();
        let turns = |semaphore: Semaphore| {
            let world = world.clone();
            async move {
                for _ in 0..5 {
                    let permit = semaphore.acquire().await.expect("a slot");
                    let session = permit.sequencers()[0].session.to_string();
                    for _ in 0..3 {
                        let all = holders(&world);
                        assert!(all.len() <= 2 && all.contains(&session), "{all:?}");
                        assert!(permit.is_held());
                        world.sleep(millis(100)).await;
                    }
                    permit.release().await.expect("released");
                }
            }
        };
        world.run(join_all(hosts.iter().cloned().map(turns)));
        let took = world.now().since_origin();
        // 30 turns in two slots.
        assert!(took < secs(60), "seed {seed}: {took:?}");
        world.advance(secs(5));
        assert_nothing_left(&world);
    }
}

#[test]
fn an_eviction_is_noticed_by_the_answer_that_tells_of_it() {
    let world = far();
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.advance(secs(5));
    let session = permit.sequencers()[0].session.to_string();
    world.consul(|consul, now| consul.destroy_session(now, &session));
    let start = world.now();
    world.run(permit.lost());
    // A list and one that the leader confirms may follow.
    let most = 3.0;
    assert!(round_trips(&world, start) <= most);
}

#[test]
fn leaders_follow_each_other_and_say_what_they_are_to_say() {
    let world = far();
    let (_election, first) = leader(&world);
    let next = election(&world, "b");
    let waiting = world.start(async move { next.campaign().await });
    for number in 0..5 {
        world
            .run(first.set_value(format!("{number}")))
            .expect("said");
        world.advance(secs(20));
        assert!(first.is_leader());
    }
    let start = world.now();
    world.run(first.resign()).expect("resigned");
    let second = world.run(waiting).expect("elected");
    assert!(round_trips(&world, start) < 6.0);
    assert_eq!(second.term(), 2);
    world.advance(secs(60));
    assert!(second.is_leader());
    world.run(second.resign()).expect("resigned");
    world.advance(secs(5));
    assert_only_key_left(&world);
}

#[test]
fn a_semaphore_is_looked_at_and_resized() {
    let world = far();
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(semaphore.resize(2)).expect("resized");
    let second = world.run(semaphore.acquire()).expect("another slot");
    let snapshot = world.run(semaphore.inspect()).expect("a semaphore");
    assert_eq!((snapshot.limit, snapshot.holders.len()), (2, 2));
    drop((permit, second));
    world.advance(secs(5));
    operate(&world, Method::Get, "/v1/session/list", "");
    assert_nothing_left(&world);
}

/// The cost of something: round trips, and the requests of all hosts.
struct Cost {
    what: &'static str,
    round_trips: f64,
    requests: u64,
    most: f64,
}

impl Cost {
    fn of(world: &MockConsul, what: &'static str, most: f64, turn: impl FnOnce()) -> Self {
        let (start, before) = (world.now(), world.stats().total_requests());
        turn();
        Self {
            what,
            round_trips: round_trips(world, start),
            requests: world.stats().total_requests() - before,
            most,
        }
    }
}

#[test]
fn a_turn_costs_so_many_round_trips() {
    let world = far();
    let [a, b, c] = ["a", "b", "c"].map(|host| semaphore(&world, host, 1));
    let mut costs = Vec::new();
    let mut held = None;
    let mut acquires = |what, most, by: &Semaphore| {
        let cost = Cost::of(&world, what, most, || {
            held = Some(world.run(by.acquire()).expect("a slot"));
        });
        let held = held.take().expect("a slot");
        (cost, held)
    };
    let (first, held_by_a) = acquires("the first acquisition of all", 4.0, &a);
    costs.push(first);
    costs.push(Cost::of(&world, "a release", 2.0, || {
        world.run(held_by_a.release()).expect("released");
    }));
    let (again, held_by_a) = acquires("an acquisition just after it", 2.0, &a);
    costs.push(again);
    world.run(held_by_a.release()).expect("released");
    world.advance(secs(10));
    // A newcomer that does not know the record enters before it claims.
    let most = 3.0;
    let (later, held_by_c) = acquires("an acquisition by another host", most, &c);
    costs.push(later);
    let waiting = world.start(async move { b.acquire().await });
    world.advance(secs(10));
    costs.push(Cost::of(
        &world,
        "from a release to the next host",
        2.0,
        || {
            let _release = world.start(held_by_c.release());
            drop(world.run(waiting).expect("its turn"));
        },
    ));
    world.advance(secs(10));
    assert_nothing_left(&world);

    let elections = ["a", "b"].map(|host| election(&world, host));
    let [first, next] = elections;
    let mut led = None;
    costs.push(Cost::of(&world, "an election", 2.0, || {
        led = Some(world.run(first.campaign()).expect("elected"));
    }));
    let waiting = world.start(async move { next.campaign().await });
    world.advance(secs(10));
    costs.push(Cost::of(
        &world,
        "from a resignation to the next leader",
        2.0,
        || {
            let leadership = led.take().expect("leads");
            let _resignation = world.start(async move { leadership.resign().await });
            drop(world.run(waiting).expect("elected"));
        },
    ));
    for cost in costs {
        let (what, round_trips, requests) = (cost.what, cost.round_trips, cost.requests);
        println!("| {what} | {round_trips:.1} | {requests} |");
        assert!(round_trips <= cost.most + 0.01, "{what}: {round_trips}");
    }
}
