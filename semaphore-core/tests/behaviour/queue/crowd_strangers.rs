//! A crowd with foreign clients: some are stuck, some jump the queue, and some are Go's.

use semaphore_core::Prefix;
use semaphore_core::sans_io::{Method, Record};
use transport_mock::consul::Entry;
use transport_mock::{Fault, MockConsul, Rule};

use crate::queue::crowd_members::*;
use crate::queue::foreign_clients::{Foreigner, Gauge, Make};
use crate::support::stranger::Stranger;
use crate::support::*;

/// The stranger writes the record. Returns whether the write came in time.
fn write_record(world: &MockConsul, by: &Stranger, change: impl FnOnce(&mut Record)) -> bool {
    let key = Prefix::new(PREFIX).expect("a prefix").record_key();
    let index = world.consul(|consul, _| consul.entry(&key).map(Entry::modify_index));
    let index = index.expect("a record");
    let mut record = record(world).expect("a record");
    change(&mut record);
    let value = String::from_utf8(record.encode()).expect("text");
    let target = format!("/v1/kv/{key}?cas={index}&flags={}", record.flags());
    let answer = by.call(world, Method::Put, &target, &value);
    answer.body().trim_ascii() == b"true"
}

#[test]
fn a_stranger_ahead_that_never_claims_is_passed() {
    for seed in 1..=10 {
        passes_a_stuck_stranger(seed);
    }
}

fn passes_a_stuck_stranger(seed: u64) {
    let world = MockConsul::new(seed);
    let log = Log::default();
    let first = in_crowd(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    let stuck = Stranger::enters(&world);
    let tasks: Vec<_> = (0..5)
        .map(|host| {
            let task = turn(&world, in_crowd(&world, &name(host), 1), &log);
            world.advance(millis(20));
            task
        })
        .collect();
    world.advance(secs(1));
    drop(permit);
    // The first one watches the stranger for 2.1 s. Then it watches the free slot for its patience
    // of up to 1 s.
    let end = world.now() + millis(3_200);
    while log.lock().expect("a log").is_empty() {
        assert!(world.step(end), "nobody got in\n{}", world.trace());
    }
    let took = run_all(&world, tasks);
    // Nobody else has to find out that the stranger is stuck, as the first did.
    assert!(took <= millis(3_400), "{took:?}\n{}", world.trace());
    assert!(stuck.is_alive(&world), "it was left alone");
    stuck.leaves(&world);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn room_that_was_seen_before_a_silence_does_not_count_after_it() {
    for seed in 1..=20 {
        let world = MockConsul::new(seed);
        let log = Log::default();
        let first = in_crowd(&world, "first", 1);
        let permit = world.run(first.acquire()).expect("a free slot");
        let ahead = Stranger::enters(&world);
        let task = turn(&world, in_crowd(&world, "behind", 1), &log);
        world.advance(secs(1));
        world.run(permit.release()).expect("released");
        world.advance(millis(100));
        world.break_connections();
        world.inject(Rule::new(Fault::Refuse).host("behind").always());
        world.advance(secs(2));
        let session = ahead.session.as_str();
        let added = write_record(&world, &ahead, |record| record.add(session));
        assert!(added, "{}", world.trace());
        world.advance(secs(2));
        let removed = write_record(&world, &ahead, |record| record.retain(|it| it != session));
        assert!(removed, "{}", world.trace());
        let freed = world.now();
        world.clear_faults();
        let end = freed + secs(10);
        while log.lock().expect("a log").is_empty() {
            assert!(world.step(end), "nobody got in\n{}", world.trace());
        }
        let took = world.now().saturating_since(freed);
        assert!(took >= millis(500), "{seed}: {took:?}\n{}", world.trace());
        run_all(&world, vec![task]);
        ahead.leaves(&world);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_stranger_ahead_that_writes_its_key_anew_is_ahead_still() {
    let world = MockConsul::new(1);
    let log = Log::default();
    let first = in_crowd(&world, "first", 1);
    let permit = world.run(first.acquire()).expect("a free slot");
    let ahead = Stranger::enters(&world);
    let behind = turn(&world, in_crowd(&world, "behind", 1), &log);
    world.advance(secs(1));
    let target = format!("/v1/kv/{}?acquire={}", ahead.key(), ahead.session);
    ahead.call(&world, Method::Put, &target, "again");
    world.advance(millis(20));
    drop(permit);
    world.advance(millis(400));
    assert!(log.lock().expect("a log").is_empty(), "{}", world.trace());
    ahead.leaves(&world);
    let took = run_all(&world, vec![behind]);
    assert!(took <= millis(100), "{took:?}");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_stranger_ahead_that_never_claims_is_waited_for_once_however_many_wait_behind_it() {
    for (seed, hosts) in [(1, 40), (2, 40), (3, 8)] {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(2));
        let log = Log::default();
        let join = |host: &str| connect(builder(1), &world.client(host));
        let permit = world.run(join("first").acquire()).expect("a free slot");
        let stuck = Stranger::enters(&world);
        let tasks: Vec<_> = (0..hosts)
            .map(|host| {
                let task = turn(&world, join(&name(host)), &log);
                world.advance(millis(20));
                task
            })
            .collect();
        world.advance(secs(1));
        drop(permit);
        let took = run_all(&world, tasks);
        assert!(took <= secs(5), "{hosts} {took:?}");
        stuck.leaves(&world);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_stranger_that_takes_free_slots_out_of_turn_does_not_let_ours_pass_each_other() {
    for seed in 1..=4 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(4));
        let log = Log::default();
        let join = |host: &str| connect(builder(1), &world.client(host));
        let permit = world.run(join("first").acquire()).expect("a free slot");
        let tasks: Vec<_> = (0..8)
            .map(|host| turn(&world, join(&name(host)), &log))
            .collect();
        world.advance(secs(1));
        let order = in_line(&world).split_off(1);
        let barger = Stranger::enters(&world);
        drop(permit);
        let mut times = 0;
        while log.lock().expect("a log").len() < 8 {
            assert!(world.step(world.now() + secs(1)), "{}", world.trace());
            let session = barger.session.as_str();
            if holders(&world).is_empty() && write_record(&world, &barger, |it| it.add(session)) {
                world.advance(millis(10));
                let leaves = |it: &mut Record| it.retain(|holder| holder != session);
                assert!(write_record(&world, &barger, leaves), "{}", world.trace());
                times += 1;
            }
        }
        assert!(times >= 4, "{times} times\n{}", world.trace());
        run_all(&world, tasks);
        assert_eq!(*log.lock().expect("a log"), order, "{}", world.trace());
        barger.leaves(&world);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

/// The simulator found this. A waiter had begun to watch the whole prefix before it saw a crowd. It
/// then left the free slot alone until that poll ended.
#[test]
fn a_stranger_ahead_that_never_claims_is_passed_by_the_next_caller_of_the_same_client() {
    for seed in 0..20 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(4));
        let semaphore = connect(builder(1), &world.client("a"));
        let stuck = Stranger::enters(&world);
        let callers = [(); 2].map(|()| {
            let (world, semaphore) = (world.clone(), semaphore.clone());
            world.clone().start(async move {
                let permit = semaphore.acquire().await.expect("a slot");
                let since = world.now();
                world.sleep(secs(7)).await;
                permit.release().await.expect("released");
                since
            })
        });
        let [first, second] = callers.map(|caller| world.run(caller));
        let took = second.saturating_since(first);
        // The first caller's hold, a poll of the stranger's key with Consul's sixteenth, our
        // patience, and the time for messages.
        assert!(took <= millis(10_300), "{took:?}\n{}", world.trace());
        stuck.leaves(&world);
        world.advance(secs(5));
        assert_nothing_left(&world);
    }
}

#[test]
fn go_clients_in_the_middle_of_a_crowd_get_in_and_so_does_everybody() {
    let world = MockConsul::new(9);
    world.set_latency(millis(1)..=millis(4));
    let gauge = Gauge::default();
    let ours = |host: usize| {
        let (world, gauge) = (world.clone(), gauge.clone());
        let semaphore = in_crowd(&world, &name(host), 2);
        async move {
            let permit = semaphore.acquire().await.expect("a slot");
            gauge.hold(&world).await;
            assert!(permit.is_held());
            permit.release().await.expect("released");
        }
    };
    let foreign = |number: usize| {
        let (world, gauge) = (world.clone(), gauge.clone());
        async move {
            let client = world.client(format!("foreign-{number}"));
            let foreigner = Foreigner::enter(Make::Go, client, 2).await;
            foreigner.acquire().await;
            gauge.hold(&world).await;
            foreigner.release().await;
        }
    };
    let first = in_crowd(&world, "first", 2);
    let permit = world.run(first.acquire_many(2)).expect("free slots");
    let mut tasks = Vec::new();
    for number in 0..4 {
        for host in 0..3 {
            tasks.push(world.start(ours(number * 3 + host)));
        }
        world.advance(millis(50));
        tasks.push(world.start(foreign(number)));
        world.advance(millis(50));
    }
    drop(permit);
    let took = run_all(&world, tasks);
    assert!(took < secs(2), "{took:?}");
    assert_eq!(gauge.most(), 2);
    world.advance(secs(1));
    assert_nothing_left(&world);
}
