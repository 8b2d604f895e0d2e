//! The queue: first come, first served. Only the heads claim, and nobody blocks the queue for ever.

use std::sync::{Arc, Mutex};

use semaphore_core::Semaphore;
use semaphore_core::adapter::Runtime as _;
use transport_mock::{MockClient, MockConsul, RequestKind, Task};

use crate::support::spy::Spy;
use crate::support::steps::{claims, writes_record};
use crate::support::stranger::Stranger;
use crate::support::*;

/// The callers in the order in which they were admitted.
type Log = Arc<Mutex<Vec<usize>>>;

fn turn(
    world: &MockConsul,
    semaphore: Semaphore,
    client: MockClient,
    log: &Log,
    name: usize,
) -> Task<()> {
    let log = Arc::clone(log);
    world.start(async move {
        let permit = semaphore.acquire().await.expect("a slot");
        log.lock().expect("a log").push(name);
        client.sleep(millis(50)).await;
        permit.release().await.expect("released");
    })
}

#[test]
fn hosts_are_served_in_the_order_in_which_they_entered() {
    for seed in 0..10 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(10));
        let log = Log::default();
        let first = semaphore(&world, "first", 1);
        let permit = world.run(first.acquire()).expect("a free slot");
        let tasks: Vec<_> = (0..10)
            .map(|name| {
                let client = world.client(format!("node-{name}"));
                let task = turn(&world, connect(builder(1), &client), client, &log, name);
                world.advance(millis(200));
                task
            })
            .collect();
        drop(permit);
        for task in tasks {
            world.run(task);
        }
        assert_eq!(*log.lock().expect("a log"), (0..10).collect::<Vec<_>>());
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn tasks_of_one_client_are_served_in_the_order_in_which_they_came() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let client = world.client("a");
    let semaphore = connect(builder(1), &client);
    let tasks: Vec<_> = (0..20)
        .map(|name| turn(&world, semaphore.clone(), client.clone(), &log, name))
        .collect();
    for task in tasks {
        world.run(task);
    }
    assert_eq!(*log.lock().expect("a log"), (0..20).collect::<Vec<_>>());
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn only_the_head_claims_a_slot_that_is_freed() {
    let world = MockConsul::new(1);
    let first = semaphore(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    let log = Log::default();
    let waiting = 20;
    let tasks: Vec<_> = (0..waiting)
        .map(|name| {
            let client = world.client(format!("node-{name}"));
            turn(&world, connect(builder(1), &client), client, &log, name)
        })
        .collect();
    world.advance(secs(1));
    let spy = Spy::on(&world);
    drop(permit);
    for task in tasks {
        world.run(task);
    }
    world.advance(secs(1));
    // Each turn writes once to claim and once to leave. The first holder's leaving is one write
    // more.
    assert_eq!(spy.count(writes_record), 2 * waiting + 1);
    assert_nothing_left(&world);
}

#[test]
fn waiting_writes_nothing_into_the_record() {
    let world = MockConsul::new(1);
    let spy = Spy::on_host(&world, "b");
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(600));
    let stats = world.stats_of("b");
    assert_eq!(spy.count(writes_record), 0, "{stats:?}");
    assert_eq!(stats.requests_of(RequestKind::SessionCreate), 1);
    drop(permit);
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn whoever_was_passed_without_a_wait_has_not_lost_its_place() {
    let world = MockConsul::new(1);
    let ahead = Stranger::enters(&world);
    let semaphore = semaphore(&world, "a", 2);
    let before = world.now();
    let first = world.run(semaphore.acquire()).expect("a free slot");
    let waited = world.now().saturating_since(before);
    assert!(waited < millis(100), "there is a slot for both: {waited:?}");
    let before = world.now();
    let second = world.run(semaphore.acquire()).expect("a slot");
    let waited = world.now().saturating_since(before);
    assert!(waited >= millis(500), "the slot was another's: {waited:?}");
    drop((first, second));
    ahead.leaves(&world);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_head_that_never_claims_is_passed_after_some_patience() {
    let world = MockConsul::new(1);
    let stuck = Stranger::enters(&world);
    let semaphore = semaphore(&world, "a", 1);
    for _ in 0..3 {
        let before = world.now();
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        assert_eq!(holders(&world).len(), 1);
        assert!(stuck.is_alive(&world), "the stranger was left alone");
        world.run(permit.release()).expect("released");
        let waited = world.now().saturating_since(before);
        // The permission to pass it is good for one turn.
        assert!(waited >= millis(500) && waited < secs(2), "{waited:?}");
    }
    stuck.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn many_hosts_behind_a_head_that_never_claims_all_get_in() {
    let world = MockConsul::new(1);
    let stuck = Stranger::enters(&world);
    let log = Log::default();
    let tasks: Vec<_> = (0..10)
        .map(|name| {
            let client = world.client(format!("node-{name}"));
            turn(&world, connect(builder(2), &client), client, &log, name)
        })
        .collect();
    for task in tasks {
        world.run(task);
    }
    assert!(world.now().since_origin() < secs(30), "{}", world.now());
    world.advance(secs(1));
    stuck.leaves(&world);
    assert_nothing_left(&world);
}

#[test]
fn a_live_head_is_not_passed() {
    // The head is slow, since its requests take long. The others are quick.
    let world = MockConsul::new(1);
    let log = Log::default();
    let first = semaphore(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    let slow = world.client("slow");
    let head = turn(&world, connect(builder(1), &slow), slow, &log, 0);
    world.advance(secs(1));
    let quick = world.client("quick");
    let next = turn(&world, connect(builder(1), &quick), quick, &log, 1);
    world.advance(secs(1));
    world.inject(
        transport_mock::Rule::new(transport_mock::Fault::Delay(millis(200)))
            .host("slow")
            .matching(claims),
    );
    drop(permit);
    world.run(head);
    world.run(next);
    assert_eq!(*log.lock().expect("a log"), [0, 1]);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_head_that_dies_is_passed_when_its_session_ends() {
    let world = MockConsul::new(1);
    let first = semaphore(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    let dying = Stranger::session_with(
        &world,
        r#"{"NodeChecks":[],"TTL":"10s","Behavior":"delete"}"#,
    );
    dying.acquires(&world, &dying.key());
    let waiter = semaphore(&world, "a", 1);
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(30));
    assert!(!dying.is_alive(&world));
    let before = world.now();
    drop(permit);
    let permit = world.run(waiting).expect("a slot");
    assert!(world.now().saturating_since(before) < millis(100));
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_holder_that_dies_is_pruned_when_its_session_ends() {
    let world = MockConsul::new(1);
    let first = semaphore(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    let session = holders(&world).remove(0);
    let waiter = semaphore(&world, "a", 1);
    let mut waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    // The holder's host is gone for good.
    world.partition("first");
    world.advance(secs(8));
    assert!(waiting.try_take().is_none());
    let permit_of_waiter = world.run(waiting).expect("a slot");
    assert!(!holders(&world).contains(&session));
    assert!(!permit.is_held());
    world.run(permit_of_waiter.release()).expect("released");
    drop(permit);
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_thousand_tasks_of_one_client_need_a_handful_of_connections() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let client = world.client("a");
    let semaphore = connect(builder(3), &client);
    let tasks: Vec<_> = (0..1_000)
        .map(|name| turn(&world, semaphore.clone(), client.clone(), &log, name))
        .collect();
    world.advance(secs(1));
    // Those of the holders, of at most eight that wait, and of some that were just used.
    let most = 16;
    assert!(session_count(&world) <= most, "{}", session_count(&world));
    for task in tasks {
        world.run(task);
    }
    assert_eq!(log.lock().expect("a log").len(), 1_000);
    let stats = world.stats();
    let most = 16;
    assert!(stats.peak_open <= most, "{stats:?}");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_thousand_waiting_tasks_can_all_be_cancelled() {
    let world = MockConsul::new(1);
    let first = semaphore(&world, "first", 3);
    let permit = world.run(first.acquire_many(3)).expect("free slots");
    let semaphore = semaphore(&world, "a", 3);
    let tasks: Vec<_> = (0..1_000)
        .map(|_| {
            let semaphore = semaphore.clone();
            world.start(async move { semaphore.acquire().await })
        })
        .collect();
    world.advance(secs(10));
    assert!(world.stats_of("a").peak_open <= 10);
    for task in tasks {
        task.abort();
    }
    world.advance(KEPT);
    assert_eq!(contender_keys(&world).len(), 3);
    assert_eq!(session_count(&world), 3);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}
