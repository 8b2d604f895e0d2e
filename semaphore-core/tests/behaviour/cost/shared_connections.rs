//! Many semaphores of one process share an agent's connections. No grant is lost, and each waiter
//! is served.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all, select};
use semaphore_core::adapter::{MOST_CONNECTIONS, Method, Priority, Request, Transport as _};
use semaphore_core::{Client, Semaphore};
use transport_mock::{MockConsul, PooledClient, Task};

/// A transport with its connections on the host with this name.
fn transport(world: &MockConsul, host: &str) -> PooledClient {
    world.client(host).pooled(MOST_CONNECTIONS).expect("some")
}

fn semaphore(prefix: &str, limit: u32, transport: &PooledClient) -> Semaphore {
    let builder = Semaphore::builder(prefix, limit);
    builder.connect(transport.clone()).expect("connected")
}

/// The turns per second of this many separate handles on a semaphore of three slots.
fn turns_per_second(handles: usize) -> f64 {
    const ROUNDS: u32 = 4;
    let world = MockConsul::new(1);
    let transport = transport(&world, "host");
    let turns = AtomicU32::new(0);
    let contend = |handle: Semaphore| {
        let (turns, world) = (&turns, &world);
        async move {
            for _ in 0..ROUNDS {
                let permit = handle.acquire().await.expect("a slot");
                world.sleep(Duration::from_millis(10)).await;
                permit.release().await.expect("released");
                turns.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let all = (0..handles).map(|_| contend(semaphore("jobs", 3, &transport)));
    let began = world.now();
    world.run(join_all(all));
    let took = world.now().saturating_since(began);
    let peak = world.stats().peak_connections;
    assert!(peak <= MOST_CONNECTIONS, "{peak} connections");
    f64::from(turns.into_inner()) / took.as_secs_f64()
}

/// Takes one slot of each of that many semaphores, and holds them for a minute. Returns how many it
/// held.
fn held_for_a_minute(world: &MockConsul, transports: &[PooledClient], semaphores: usize) -> usize {
    let hold = |number: usize| {
        let transport = &transports[number % transports.len()];
        let semaphore = semaphore(&format!("jobs/{number}"), 2, transport);
        async move {
            let Ok(permit) = semaphore.acquire_timeout(Duration::from_secs(60)).await else {
                return false;
            };
            world.sleep(Duration::from_secs(60)).await;
            assert!(permit.is_held(), "the slot of semaphore {number} was lost");
            permit.release().await.expect("released");
            true
        }
    };
    let granted = world.run(join_all((0..semaphores).map(hold)));
    granted.into_iter().filter(|granted| *granted).count()
}

/// There are `times` as many semaphores as connections.
fn all_are_held(times: usize) {
    let world = MockConsul::new(1);
    let transport = transport(&world, "host");
    let semaphores = times * MOST_CONNECTIONS;
    let held = held_for_a_minute(&world, &[transport], semaphores);
    assert_eq!(held, semaphores);
    let stats = world.stats();
    assert!(stats.peak_connections <= MOST_CONNECTIONS, "{stats:?}");
    assert_eq!(stats.failures, 0, "{stats:?}");
}

#[test]
fn three_times_as_many_semaphores_as_there_are_connections_are_held_for_a_minute() {
    all_are_held(3);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn ten_times_as_many_semaphores_as_there_are_connections_are_held_for_a_minute() {
    all_are_held(10);
}

/// Wants a slot of each of that many semaphores of one client at once, with slow answers. Holds the
/// slots for a minute.
fn many_at_once(semaphores: usize, latency: Duration) {
    let world = MockConsul::new(1);
    world.set_latency(latency / 2..=latency * 3 / 2);
    let client = Client::builder().connect(transport(&world, "host"));
    let client = client.expect("connected");
    let hold = |number: usize| {
        let semaphore = client.semaphore(format!("jobs/{number}"), 2);
        let (semaphore, world) = (semaphore.expect("valid"), &world);
        async move {
            let permit = semaphore.acquire().await.expect("a slot");
            world.sleep(Duration::from_secs(60)).await;
            assert!(permit.is_held(), "the slot of semaphore {number} was lost");
            permit.release().await.expect("released");
        }
    };
    world.run(join_all((0..semaphores).map(hold)));
    let stats = world.stats();
    assert!(stats.peak_connections <= MOST_CONNECTIONS, "{stats:?}");
    assert_eq!(stats.failures, 0, "{stats:?}");
}

#[test]
fn hundreds_of_semaphores_that_are_wanted_at_once_wait_for_their_turn_and_are_held() {
    many_at_once(500, Duration::from_millis(100));
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn thousands_of_semaphores_that_are_wanted_at_once_wait_for_their_turn_and_are_held() {
    many_at_once(2_000, Duration::from_millis(100));
}

#[test]
fn nothing_that_was_granted_is_lost_where_the_agent_refuses_most_connections() {
    for most in [1, 2, 10] {
        let world = MockConsul::new(1);
        world.set_max_connections(Some(most));
        let transport = transport(&world, "host");
        let held = held_for_a_minute(&world, &[transport], 50);
        assert_eq!(held, 50, "with {most} connections");
        assert!(world.stats().failures > 0, "nothing was refused");
    }
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn nothing_that_was_granted_is_lost_where_many_transports_share_an_address() {
    let world = MockConsul::new(1);
    let transports: Vec<_> = (0..250).map(|_| transport(&world, "host")).collect();
    let held = held_for_a_minute(&world, &transports, 250);
    assert!((150..250).contains(&held), "{held} of 250 were granted");
    assert!(world.stats().failures > 0, "nothing was refused");
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn five_semaphores_in_each_of_fifty_processes_are_all_held() {
    let world = MockConsul::new(1);
    let transports: Vec<_> = (0..50).map(|_| transport(&world, "host")).collect();
    assert_eq!(held_for_a_minute(&world, &transports, 250), 250);
}

#[test]
fn polls_that_were_given_up_count_as_long_as_by_the_agent_by_a_clock_that_runs_fast() {
    let world = MockConsul::new(1);
    let client = world.client("host").with_clock_rate(1.05);
    let transport = client.pooled(MOST_CONNECTIONS).expect("some");
    let create = Request::new(Method::Put, "/v1/kv/jobs/1");
    world.run(transport.send(create)).expect("an answer");
    let read = Request::new(Method::Get, "/v1/kv/jobs/?recurse");
    let answer = world.run(transport.send(read)).expect("an answer");
    let index = answer.header("X-Consul-Index").expect("an index");
    let poll = || {
        let target = format!("/v1/kv/jobs/?recurse&index={index}&wait=15s");
        let poll = Request::new(Method::Get, target).as_long_poll();
        let poll = poll.with_timeout(Duration::from_secs(17));
        transport.send(poll.with_priority(Priority::Poll { ahead: 0 }))
    };
    // The first polls take all connections for polls and are abandoned. Then as many others want
    // these connections.
    let polls = || join_all((0..MOST_CONNECTIONS).map(|_| poll()));
    world.run(async {
        select(polls(), Box::pin(world.sleep(Duration::from_secs(1)))).await;
    });
    let reads = async {
        world.sleep(Duration::from_secs(13)).await;
        for _ in 0..20 {
            let read = || transport.send(Request::new(Method::Get, "/v1/status/leader"));
            join_all((0..MOST_CONNECTIONS).map(|_| read())).await;
            world.sleep(Duration::from_millis(100)).await;
        }
    };
    world.run(join(reads, polls()));
    let peak = transport.peak_connections();
    assert!(peak <= MOST_CONNECTIONS, "{peak} connections");
}

#[test]
fn whoever_waits_for_another_process_is_served_within_the_bound_though_all_polls_are_taken() {
    let world = MockConsul::new(1);
    let (ours, theirs) = (transport(&world, "ours"), transport(&world, "theirs"));
    let jobs = |number: usize| format!("jobs/{number}");
    let semaphores = 2 * MOST_CONNECTIONS;
    let wait = |number: usize| {
        let (ours, theirs) = (&ours, &theirs);
        let world = &world;
        async move {
            let holder = semaphore(&jobs(number), 1, theirs);
            let permit = holder.acquire().await.expect("a slot");
            let waiter = semaphore(&jobs(number), 1, ours);
            let free_at = world.now() + Duration::from_secs(30);
            let hold = async {
                world.sleep(free_at.saturating_since(world.now())).await;
                permit.release().await.expect("released");
            };
            let wait = async {
                let permit = waiter.acquire().await.expect("a slot");
                let turn = world.now().saturating_since(free_at);
                permit.release().await.expect("released");
                turn
            };
            join(wait, hold).await.0
        }
    };
    let turns = world.run(join_all((0..semaphores).map(wait)));
    let longest = turns.into_iter().max().expect("some");
    // Four to five seconds between two looks, and the time for all requests at once.
    assert!(longest < Duration::from_secs(6), "{longest:?}");
    assert!(world.stats_of("ours").peak_connections <= MOST_CONNECTIONS);
}

/// That many waiters get about as many turns as half of them.
fn turns_do_not_fall_with(waiters: usize) {
    let few = turns_per_second(waiters / 2);
    let many = turns_per_second(waiters);
    assert!(many >= 0.8 * few, "{many:.1} turns a second, not {few:.1}");
}

#[test]
fn a_hundred_who_wait_get_as_many_turns_as_half_of_them() {
    turns_do_not_fall_with(100);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn three_hundred_who_wait_get_as_many_turns_as_half_of_them() {
    turns_do_not_fall_with(300);
}

/// The simulator found such a program (seed 13094530), which kept a waiter from seeing a free slot for minutes.
#[test]
fn a_poll_without_a_connection_has_news_though_the_program_reads_all_the_time() {
    let world = MockConsul::new(1);
    let ours = world.client("ours").pooled(1).expect("some");
    let write = || Request::new(Method::Put, "/v1/kv/jobs").with_body(world.now().to_string());
    world.run(ours.send(write())).expect("an answer");
    let known = world.run(ours.send(Request::new(Method::Get, "/v1/kv/jobs")));
    let known = known.expect("an answer");
    let index = known.header("X-Consul-Index").expect("an index");
    let read = |ours: PooledClient| async move {
        loop {
            let read = Request::new(Method::Get, "/v1/kv/read");
            ours.send(read).await.expect("an answer");
        }
    };
    let _readers: Vec<Task<()>> = (0..20).map(|_| world.start(read(ours.clone()))).collect();
    let poll = format!("/v1/kv/jobs?index={index}&wait=15s");
    let poll = Request::new(Method::Get, poll).as_long_poll();
    let poll = poll.with_priority(Priority::Poll { ahead: 0 });
    let began = world.now();
    let write = async {
        world.sleep(Duration::from_secs(1)).await;
        world.client("theirs").send(write()).await
    };
    let (news, written) = world.run(join(ours.send(poll), write));
    assert!(written.is_ok() && news.is_ok(), "{written:?}, {news:?}");
    let took = world.now().saturating_since(began);
    assert!(took < Duration::from_secs(6), "{took:?}");
}
