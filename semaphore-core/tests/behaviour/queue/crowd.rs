//! A crowd: the cost of a handoff does not grow with the number of waiters. Each of them watches
//! the next one ahead. This chain survives when a waiter drops out.

use std::time::Duration;

use semaphore_core::adapter::{Method, Request, Response, Runtime as _};
use semaphore_core::{Error, Lost, RequestError};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::queue::crowd_members::*;
use crate::queue::foreign_clients::Gauge;
use crate::support::stranger::operate;
use crate::support::*;

/// A holder of one slot, and hosts that wait behind it in order.
fn line(world: &MockConsul, hosts: usize, log: &Log) -> (semaphore_core::Permit, Vec<Task<()>>) {
    let permit = world
        .run(in_crowd(world, "first", 1).acquire())
        .expect("a free slot");
    let waiting = (0..hosts).map(|host| {
        let waiting = turn(world, in_crowd(world, &name(host), 1), log);
        world.advance(millis(20));
        waiting
    });
    let waiting = waiting.collect();
    world.advance(secs(1));
    (permit, waiting)
}

/// The host and its session are gone for good.
fn kill(world: &MockConsul, host: &str, session: &str) {
    world.partition(host);
    world.consul(|consul, now| consul.destroy_session(now, session));
}

/// A waiter that drops out of the line costs the others only a few requests.
fn drop_out(world: &MockConsul, out: impl FnOnce()) {
    out();
    world.advance(millis(20));
    let others = || {
        let stats = world.stats();
        let renewals = [RequestKind::SessionRenew, RequestKind::SessionRead];
        let renewals = renewals.map(|kind| stats.requests_of(kind));
        stats.total_requests() - renewals.iter().sum::<u64>()
    };
    let before = others();
    world.advance(millis(400));
    assert_eq!(others(), before, "{}", world.trace());
}

/// The requests and the bytes of answers per acquisition when `hosts` contend for three slots at
/// the same time.
#[expect(clippy::cast_precision_loss, reason = "a rate to compare")]
fn cost(hosts: usize) -> (f64, f64) {
    let world = MockConsul::new(1);
    world.set_latency(Duration::from_micros(100)..=Duration::from_micros(300));
    let tasks: Vec<_> = (0..hosts)
        .map(|host| {
            let client = world.client(name(host));
            let semaphore = connect(builder(3), &client);
            world.start(async move {
                let permit = semaphore.acquire().await.expect("a slot");
                client.sleep(millis(10)).await;
                permit.release().await.expect("released");
                semaphore.shutdown().await;
            })
        })
        .collect();
    run_all(&world, tasks);
    assert_nothing_left(&world);
    let stats = world.stats();
    let each = |sum: u64| sum as f64 / hosts as f64;
    (each(stats.total_requests()), each(stats.bytes_down))
}

#[test]
fn a_handoff_costs_as_many_requests_however_many_wait() {
    let (few, many) = (cost(20), cost(60));
    assert!(many.0 <= 12.0, "{few:?} {many:?}");
    assert!(many.0 <= few.0 * 1.2, "{few:?} {many:?}");
    // A newcomer is shown all others, however many they are.
    let most = 2.5;
    assert!(many.1 <= few.1 * most, "{few:?} {many:?}");
}

#[test]
fn a_crowd_is_served_in_the_order_of_its_keys() {
    for seed in 0..5 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(10));
        let log = Log::default();
        let first = in_crowd(&world, "first", 1);
        let permit = world.run(first.acquire()).expect("a free slot");
        let tasks: Vec<_> = (0..12)
            .map(|host| turn(&world, in_crowd(&world, &name(host), 1), &log))
            .collect();
        world.advance(secs(1));
        let order = in_line(&world).split_off(1);
        assert_eq!(order.len(), 12, "{}", world.trace());
        drop(permit);
        let took = run_all(&world, tasks);
        assert_eq!(*log.lock().expect("a log"), order, "{}", world.trace());
        assert!(took < secs(2), "{took:?}");
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn whoever_gives_up_in_the_middle_does_not_break_the_chain() {
    for gone in 0..5 {
        let world = MockConsul::new(1);
        let log = Log::default();
        let (permit, mut tasks) = line(&world, 5, &log);
        let mut order = in_line(&world).split_off(1);
        let leaver = tasks.remove(gone);
        drop_out(&world, || leaver.abort());
        order.remove(gone);
        drop(permit);
        let took = run_all(&world, tasks);
        assert_eq!(*log.lock().expect("a log"), order, "{}", world.trace());
        assert!(took < secs(1), "{gone}: {took:?}");
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn whoever_waits_no_longer_does_not_break_the_chain() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let (permit, mut tasks) = line(&world, 3, &log);
    let impatient = in_crowd(&world, "impatient", 1);
    let ends = world.start(async move { impatient.acquire_timeout(secs(3)).await });
    world.advance(millis(20));
    tasks.push(turn(&world, in_crowd(&world, "last", 1), &log));
    world.advance(secs(1));
    let mut order = in_line(&world).split_off(1);
    order.remove(3);
    assert!(world.run(ends).is_err(), "nothing was free");
    drop(permit);
    let took = run_all(&world, tasks);
    assert_eq!(*log.lock().expect("a log"), order, "{}", world.trace());
    assert!(took < secs(1), "{took:?}");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn whoever_dies_in_the_middle_does_not_break_the_chain() {
    for gone in 0..5 {
        let world = MockConsul::new(1);
        let log = Log::default();
        let (permit, mut tasks) = line(&world, 5, &log);
        let mut order = in_line(&world).split_off(1);
        tasks.remove(gone).abort();
        drop_out(&world, || {
            kill(&world, &name(gone), &order.remove(gone));
        });
        drop(permit);
        let took = run_all(&world, tasks);
        assert_eq!(*log.lock().expect("a log"), order, "{}", world.trace());
        assert!(took < secs(1), "{gone}: {took:?}");
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_holder_that_dies_is_pruned_its_lock_delay_after_two_polls_of_the_record() {
    // The first in line looks at the prefix when its knowledge is 5 s old. It checks that when a
    // poll of the record ends, which takes a little more than 5 s. The rest of the time is for the
    // questions to Consul.
    let bound = millis(11_000) + secs(15);
    for after in 0..6 {
        let world = MockConsul::new(after);
        let log = Log::default();
        let (permit, tasks) = line(&world, 5, &log);
        let order = in_line(&world);
        world.advance(secs(after));
        kill(&world, "first", &order[0]);
        let took = run_all(&world, tasks);
        let served = log.lock().expect("a log").clone();
        let mut expected = order[1..].to_vec();
        // The slot goes to the waiter whose clock is first to say that the lock delay is over.
        expected.retain(|it| *it != served[0]);
        expected.insert(0, served[0].clone());
        assert_eq!(served, expected);
        assert!(took <= bound, "{after}: {took:?}");
        drop(permit);
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn polls_that_fail_for_a_while_end_no_wait_and_change_no_order() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let (permit, tasks) = line(&world, 3, &log);
    let order = in_line(&world).split_off(1);
    let fails = Rule::new(Fault::unavailable()).kind(RequestKind::KvWatch);
    world.inject(fails.times(8));
    world.break_connections();
    world.advance(secs(3));
    assert_eq!(world.pending_rules(), 0);
    drop(permit);
    run_all(&world, tasks);
    assert_eq!(*log.lock().expect("a log"), order, "{}", world.trace());
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn whoever_may_not_look_at_the_waiter_ahead_is_told_and_leaves() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let (permit, tasks) = line(&world, 1, &log);
    let ahead = in_line(&world).remove(1);
    let a = in_crowd(&world, "a", 1);
    let denied = Fault::Answer(Response::new(403, "Permission denied"));
    let look = Rule::new(denied).host("a").kind(RequestKind::KvWatch);
    world.inject(look.target(format!("{PREFIX}/{ahead}")).always());
    let outcome = world.run(a.acquire());
    let is_denied = matches!(outcome, Err(Error::Request(RequestError::Denied { .. })));
    assert!(is_denied, "{outcome:?}");
    world.advance(secs(2));
    assert_eq!(in_line(&world).len(), 2, "{}", world.trace());
    drop(permit);
    run_all(&world, tasks);
    assert_nothing_left(&world);
}

#[test]
fn a_holder_that_is_evicted_notices_within_one_answer() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let (permit, tasks) = line(&world, 3, &log);
    let evicted = world.now();
    let lock = format!("/v1/kv/{PREFIX}/.lock?flags=16210313421097356768");
    operate(&world, Method::Put, &lock, r#"{"Limit":1,"Holders":{}}"#);
    let lost = world.run(permit.lost());
    assert!(matches!(lost, Lost::RemovedFromHolders { .. }), "{lost:?}");
    let took = world.now().saturating_since(evicted);
    assert!(took <= EDIT_SEEN_AFTER, "{took:?}");
    drop(permit);
    run_all(&world, tasks);
    assert_eq!(log.lock().expect("a log").len(), 3);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn whoever_a_restored_snapshot_does_not_know_enters_again_though_the_record_is_as_it_was() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let first = in_crowd(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    world.advance(secs(1));
    let snapshot = world.consul(|consul, _| consul.snapshot());
    let waiting = turn(&world, in_crowd(&world, "waiting", 1), &log);
    world.advance(secs(1));
    world.consul(|consul, now| consul.restore(now, &snapshot));
    assert_eq!(contender_keys(&world).len(), 1);
    world.advance(secs(1));
    assert_eq!(contender_keys(&world).len(), 2, "{}", world.trace());
    drop(permit);
    run_all(&world, vec![waiting]);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn whoever_watches_the_next_ahead_shares_a_semaphore_with_who_watches_all() {
    let world = MockConsul::new(3);
    world.set_latency(millis(1)..=millis(4));
    let gauge = Gauge::default();
    let tasks: Vec<_> = (0..10)
        .map(|host| {
            let (clock, gauge) = (world.clone(), gauge.clone());
            let semaphore = connect(builder(2), &world.client(name(host)));
            world.start(async move {
                for _ in 0..5 {
                    let permit = semaphore.acquire().await.expect("a slot");
                    gauge.hold(&clock).await;
                    assert!(permit.is_held());
                    permit.release().await.expect("released");
                }
            })
        })
        .collect();
    let took = run_all(&world, tasks);
    assert!(took < secs(5), "{took:?}");
    assert_eq!(gauge.most(), 2);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_poll_that_a_write_of_ones_own_ends_is_no_alarm() {
    let world = MockConsul::new(1);
    let semaphore = in_crowd(&world, "first", 3);
    let long = world.run(semaphore.acquire()).expect("a free slot");
    // By now the contender polls the record.
    world.advance(secs(1));
    let start = world.now();
    let short = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(millis(10));
    world.run(short.release()).expect("released");
    let took = world.now().saturating_since(start);
    assert!(took < millis(30), "{took:?}\n{}", world.trace());
    world.run(long.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
    let reads = world.stats().requests_of(RequestKind::KvRead);
    // The first read, and a look at the record before each release.
    assert!(reads <= 3, "{}", world.trace());
}

#[test]
fn many_who_come_at_once_to_a_slow_agent_do_not_all_watch_each_other_come() {
    let hosts = 60;
    let world = MockConsul::new(1);
    let log = Log::default();
    let writes_record =
        |request: &Request| String::from_utf8_lossy(request.body()).contains("/.lock");
    let tasks: Vec<_> = (0..hosts)
        .map(|host| {
            let slow = |delay, is_write: bool| {
                let matches = move |request: &Request| {
                    RequestKind::of(request) == RequestKind::Txn
                        && writes_record(request) == is_write
                };
                let rule = Rule::new(Fault::Delay(delay)).host(name(host));
                world.inject(rule.matching(matches).times(1));
            };
            slow(millis(50) * u32::try_from(host).expect("few"), false);
            slow(secs(4), true);
            turn(&world, connect(builder(1), &world.client(name(host))), &log)
        })
        .collect();
    world.advance(secs(4));
    let of = |host| world.stats_of(name(host)).requests_of(RequestKind::KvWatch);
    let reads: Vec<_> = (0..hosts).map(of).collect();
    // The first few wait for the record. The others watch the whole prefix until it looks like a
    // crowd.
    assert!(reads[8..].iter().all(|reads| *reads <= 10), "{reads:?}");
    run_all(&world, tasks);
    assert_eq!(log.lock().expect("a log").len(), hosts);
}
