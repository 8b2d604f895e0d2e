//! The recipe of docs/guides/LEADING.md for shards that are spread over processes: each process
//! holds back for longer, the less it is meant to lead a shard.

use std::num::NonZeroUsize;
use std::time::Duration;

use semaphore_core::terms::{TermLimit, Terms};
use semaphore_core::{Client, Election};
use transport_mock::MockConsul;

use crate::ENCODING;
use crate::support::*;

const SHARDS: usize = 16;
const HOSTS: [&str; 3] = ["a", "b", "c"];

fn key(shard: usize) -> String {
    format!("shards/{shard}/leader")
}

/// The processes in the order in which they are meant to lead this shard.
fn order(mut shard: usize, processes: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..processes).collect();
    let next = |count| {
        let next = left.remove(shard % count);
        shard /= count;
        next
    };
    (1..=processes).rev().map(next).collect()
}

fn rank(shard: usize, process: usize) -> u32 {
    let order = order(shard, HOSTS.len());
    let rank = order.iter().position(|it| *it == process);
    u32::try_from(rank.expect("each has a place")).expect("few")
}

/// Starts this process. The loops end with its host.
fn start(
    world: &MockConsul,
    process: usize,
    options: impl Fn(usize, Terms<'static>) -> Terms<'static>,
) -> Client {
    let host = HOSTS[process];
    let builder = Client::builder().value(host).encoding(ENCODING);
    let client = builder.connect(world.client(host)).expect("valid options");
    for shard in 0..SHARDS {
        let election: Election = client.election(key(shard)).expect("valid settings");
        let terms = options(shard, election.terms());
        drop(world.start(terms.run(|_| std::future::pending())));
    }
    client
}

fn start_by_rank(world: &MockConsul, process: usize) -> Client {
    start(world, process, |shard, terms| match rank(shard, process) {
        0 => terms,
        rank => terms.hold_back(secs(3) * rank).longest(secs(30)),
    })
}

/// How many shards each process leads, as the keys say.
fn led(world: &MockConsul) -> [usize; 3] {
    HOSTS.map(|host| {
        let leads = |shard: &usize| world.leader(key(*shard)).as_deref() == Some(host);
        (0..SHARDS).filter(leads).count()
    })
}

/// Waits until they lead as many.
#[track_caller]
fn until_led(world: &MockConsul, wanted: [usize; 3], most: Duration) {
    let what = format!("{wanted:?} are led");
    world.run(world.expect_within(most, what, |world| led(world) == wanted));
}

#[test]
fn shards_spread_over_processes_by_rank_and_spread_again_after_a_crash_and_a_return() {
    let world = MockConsul::new(1);
    let mut clients = Vec::new();
    for process in 0..HOSTS.len() {
        clients.push(start_by_rank(&world, process));
        world.advance(secs(3));
    }
    until_led(&world, [6, 5, 5], secs(30));
    world.advance(secs(90));
    assert_eq!(led(&world), [6, 5, 5], "it stays so");

    world.kill("a");
    // The session lives for up to two TTLs, then the lock delay runs, and the second holds back.
    until_led(&world, [0, 8, 8], secs(50));
    // Each term of a process that is not the first ends after 30 s. Nobody leads for the pause of a
    // second, and while it holds back for three.
    let mut without_leader = 0;
    for _ in 0..680 {
        world.advance(millis(100));
        let [a, b, c] = led(&world);
        assert!(a == 0 && b <= 8 && c <= 8, "{a} {b} {c}");
        without_leader += SHARDS - b - c;
    }
    let each = without_leader / 6 / 2;
    assert!((38..=44).contains(&each), "{each} tenths of a second");

    clients[0] = start_by_rank(&world, 0);
    until_led(&world, [6, 5, 5], secs(35));
    world.advance(secs(90));
    assert_eq!(led(&world), [6, 5, 5], "it stays so");
}

#[test]
fn a_limit_caps_what_a_process_leads_and_does_not_spread() {
    let world = MockConsul::new(1);
    let limits = HOSTS.map(|_| TermLimit::new(NonZeroUsize::new(8).expect("some")));
    let mut clients = Vec::new();
    for (process, limit) in limits.iter().enumerate() {
        clients.push(start(&world, process, |_, terms| terms.at_most(limit)));
        world.advance(secs(3));
    }
    world.advance(secs(60));
    assert_eq!(led(&world), [8, 8, 0]);
}
