//! The shards of a service, each with an election, spread over a few processes.

use std::num::NonZeroUsize;

use futures_util::future::pending;
use semaphore_core::terms::TermLimit;
use semaphore_core::{Client, Error, Lost};
use transport_mock::{MockConsul, Task};

use crate::support::election::*;
use crate::support::spy::Spy;
use crate::support::*;

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];

/// One process's work: it campaigns for every shard, and leads some of them.
struct Worker {
    client: Client,
    limit: TermLimit,
    loops: Vec<Task<Result<(), Error>>>,
}

fn client(world: &MockConsul, host: &str) -> Client {
    let builder = Client::builder().value(host);
    builder.connect(world.client(host)).expect("valid options")
}

fn keys(shards: usize) -> Vec<String> {
    (0..shards)
        .map(|shard| format!("shards/{shard}/leader"))
        .collect()
}

/// Leads at most that many of these, with work that does not end.
fn worker(world: &MockConsul, host: &str, keys: &[String], most: usize) -> Worker {
    let client = client(world, host);
    let limit = TermLimit::new(NonZeroUsize::new(most).expect("some"));
    let serve = |key: &String| {
        let election = client.election(key).expect("valid settings");
        let terms = election.terms().at_most(&limit);
        world.start(terms.run(|_| pending()))
    };
    let loops = keys.iter().map(serve).collect();
    Worker {
        client,
        limit,
        loops,
    }
}

fn led(world: &MockConsul, keys: &[String]) -> usize {
    let leaders = keys.iter().filter(|key| world.leader(key).is_some());
    leaders.count()
}

#[test]
fn a_hundred_shards_spread_over_four_clients_and_end_with_them() {
    let world = MockConsul::new(1);
    let keys = keys(100);
    let workers = HOSTS.map(|host| worker(&world, host, &keys, 25));
    world.advance(secs(60));
    let taken = workers.each_ref().map(|worker| worker.limit.taken());
    assert_eq!(taken, [25; 4]);
    assert_eq!(led(&world, &keys), 100);
    assert_eq!(session_count(&world), 4);
    // Each session has 0.9 renewals a second, as many reads that confirm them, and reads of the
    // keys: see docs/SCALE.md.
    let spy = Spy::on(&world);
    world.advance(secs(60));
    let requests = spy.requests().len() / 60;
    assert!(requests <= 80, "{requests} requests a second");
    for (at, worker) in workers.into_iter().enumerate() {
        let began = world.now();
        world.run(worker.client.shutdown());
        let took = world.now().saturating_since(began);
        assert!(took <= secs(5), "{took:?}");
        for task in worker.loops {
            world.run(task).expect("told to stop");
        }
        // The others lead as many as they may.
        let left = 4 - (at + 1);
        assert_eq!(session_count(&world), left, "{}", world.trace());
    }
    assert_eq!(led(&world, &keys), 0);
}

#[test]
fn a_client_that_is_shut_down_steps_down_and_tells_who_leads() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let election = client.election(KEY).expect("valid settings");
    let leadership = world.run(election.campaign()).expect("elected");
    let other = client.election("another/key").expect("valid settings");
    let stranger = world.run(elect_with(builder_for("another/key"), &world.client("b")).campaign());
    let waits = world.start(async move { other.campaign().await });
    world.advance(secs(1));
    let began = world.now();
    world.run(client.shutdown());
    assert!(world.now().saturating_since(began) <= secs(1));
    assert!(!leadership.is_leader());
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::SteppedDown), "{lost:?}");
    let refused = world.run(waits);
    assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
    world.run(leadership.resign()).expect("resigned");
    world.run(client.shutdown());
    let stranger = stranger.expect("elected");
    world.run(stranger.resign()).expect("resigned");
    assert_only_key_left(&world);
}
