//! Several processes with many callers use one semaphore: how much of the possible rate they reach,
//! and what a turn costs. `cargo run --release -p scale` prints more figures, measured for longer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semaphore_core::Lost;
use semaphore_core::sans_io::{Method, Request};
use transport_mock::{MockConsul, RequestKind};

use crate::support::spy::Spy;
use crate::support::steps::{enters, writes_record};
use crate::support::stranger::operate;
use crate::support::*;

/// The callers. Each wants the slot again as soon as it has released it.
struct Crowd {
    limit: u32,
    callers: usize,
    processes: usize,
    hold: u64,
}

/// The results of a while.
#[derive(Debug)]
struct Figures {
    /// The turns as a percentage of those that would be possible if handovers took no time.
    percent: u64,
    /// Requests per hundred turns.
    requests: u64,
    /// What the answers to a turn's requests contain.
    kilobytes: u64,
    /// The sessions that were ended meanwhile.
    sessions: u64,
    most_held: u32,
}

const TIME: u64 = 500;

impl Crowd {
    fn run(&self) -> Figures {
        self.run_on(&MockConsul::new(3))
    }

    fn run_on(&self, world: &MockConsul) -> Figures {
        self.run_for(world, TIME)
    }

    fn run_for(&self, world: &MockConsul, time: u64) -> Figures {
        let tally = Arc::new(Mutex::new((0_u64, 0_u32, 0_u32)));
        let handles: Vec<_> = (0..self.processes)
            .map(|number| semaphore(world, &format!("process-{number}"), self.limit))
            .collect();
        let callers: Vec<_> = (0..self.callers)
            .map(|number| {
                let handle = handles[number % handles.len()].clone();
                let (sleeper, tally, hold) = (world.clone(), Arc::clone(&tally), self.hold);
                world.start(async move {
                    loop {
                        let permit = handle.acquire().await.expect("a turn");
                        {
                            let mut tally = tally.lock().expect("a tally");
                            tally.0 += 1;
                            tally.1 += 1;
                            tally.2 = tally.2.max(tally.1);
                        }
                        sleeper.sleep(millis(hold)).await;
                        tally.lock().expect("a tally").1 -= 1;
                        drop(permit);
                    }
                })
            })
            .collect();
        world.advance(millis(200));
        let sessions = || world.stats().requests_of(RequestKind::SessionDestroy);
        let before = (
            tally.lock().expect("a tally").0,
            world.stats().total_requests(),
            sessions(),
            world.stats().bytes_down,
        );
        world.advance(millis(time));
        let after = (
            tally.lock().expect("a tally").0,
            world.stats().total_requests(),
            sessions(),
            world.stats().bytes_down,
        );
        for caller in callers {
            caller.abort();
        }
        let turns = after.0 - before.0;
        let slots = (self.limit as usize).min(self.callers) as u64;
        let most_held = tally.lock().expect("a tally").2;
        Figures {
            percent: turns * 100 * self.hold / (slots * time),
            requests: (after.1 - before.1) * 100 / turns.max(1),
            kilobytes: (after.3 - before.3) / 1_000 / turns.max(1),
            sessions: after.2 - before.2,
            most_held,
        }
    }
}

#[test]
fn few_slots_are_used_well_by_one_process_and_by_several() {
    for (processes, percent, requests) in [(1, 80, 100), (2, 70, 300), (4, 70, 300), (15, 70, 600)]
    {
        let crowd = Crowd {
            limit: 3,
            callers: 60,
            processes,
            hold: 10,
        };
        let figures = crowd.run();
        eprintln!("{processes} processes: {figures:?}");
        assert_eq!(figures.most_held, 3, "{processes}");
        assert!(figures.percent >= percent, "{processes}: {figures:?}");
        assert!(figures.requests <= requests, "{processes}: {figures:?}");
        assert!(figures.sessions <= 10, "{processes}: {figures:?}");
    }
}

#[test]
fn many_slots_are_used_well_by_one_process_and_by_several() {
    for (processes, callers, percent, requests) in [
        (1, 60, 90, 50),
        (4, 60, 85, 200),
        (10, 60, 60, 410),
        (4, 400, 85, 40),
        (20, 400, 50, 250),
    ] {
        let crowd = Crowd {
            limit: 100,
            callers,
            processes,
            hold: 50,
        };
        let figures = crowd.run();
        eprintln!("{processes} processes, {callers} callers: {figures:?}");
        assert!(
            figures.most_held as usize <= callers.min(100),
            "{processes}"
        );
        assert!(figures.percent >= percent, "{processes}: {figures:?}");
        assert!(figures.requests <= requests, "{processes}: {figures:?}");
        assert!(figures.sessions <= 10, "{processes}: {figures:?}");
    }
}

/// Each write takes two milliseconds, and there is one record. So most of twenty processes lose each
/// race for it. Who loses it must not begin to queue while slots are free: the others would have to
/// queue behind it, and each turn would take twice as many writes.
#[test]
fn many_slots_are_used_well_by_many_processes_where_each_write_takes_long() {
    // While slots are free, each turn takes one and gives it back.
    let free = (80, 60, 750, 25);
    for (callers, percent, requests, kilobytes) in [free, (400, 62, 180, 11)] {
        let crowd = Crowd {
            limit: 100,
            callers,
            processes: 20,
            hold: 50,
        };
        let world = MockConsul::new(1);
        world.set_latency(Duration::from_micros(500)..=Duration::from_micros(1_500));
        let figures = crowd.run_on(&world);
        assert!(figures.percent >= percent, "{callers}: {figures:?}");
        assert!(figures.requests <= requests, "{callers}: {figures:?}");
        assert!(figures.kilobytes <= kilobytes, "{callers}: {figures:?}");
    }
}

/// An agent counts a poll that was given up until its wait is over. Waiters come and go with each turn, and
/// one holder of many is polled: if each of them gave a poll up, no connection would be left after seconds.
#[test]
fn nearly_as_many_callers_as_slots_give_up_no_poll() {
    for (callers, hold, time) in [(80, 50, 4_000), (20, 1_500, 20_000)] {
        let crowd = Crowd {
            limit: 100,
            callers,
            processes: 1,
            hold,
        };
        let world = MockConsul::new(3);
        let figures = crowd.run_for(&world, time);
        assert!(figures.percent >= 90, "{callers}: {figures:?}");
        let is_given_up = |line: &&str| line.contains("given up");
        let polls = world.trace().lines().filter(is_given_up).count();
        assert_eq!(polls, 0, "{callers}");
        assert_eq!(world.stats().failures, 0, "{callers}");
    }
}

/// There are few enough to watch the whole prefix. But turns are so short that watching it would
/// need more reads than are allowed.
#[test]
fn few_who_take_short_turns_use_the_slots_as_well_as_more_do() {
    for callers in [4, 8, 9] {
        let crowd = Crowd {
            limit: 2,
            callers,
            processes: callers,
            hold: 10,
        };
        let world = MockConsul::new(3);
        world.set_latency(Duration::from_micros(100)..=Duration::from_micros(300));
        let figures = crowd.run_on(&world);
        eprintln!("{callers} processes: {figures:?}");
        assert_eq!(figures.most_held, 2, "{callers}");
        assert!(figures.percent >= 85, "{callers}: {figures:?}");
        assert!(figures.requests <= 750, "{callers}: {figures:?}");
    }
}

/// The requests of a holder of one of three slots in five seconds, alone or beside a caller that
/// takes one turn after the other.
fn asked_by_a_holder_beside(turns: bool) -> u64 {
    let world = MockConsul::new(4);
    let quiet = semaphore(&world, "quiet", 3);
    let permit = world.run(quiet.acquire()).expect("a slot");
    let busy = semaphore(&world, "busy", 3);
    let taker = turns.then(|| {
        let sleeper = world.clone();
        world.start(async move {
            loop {
                let permit = busy.acquire().await.expect("a turn");
                sleeper.sleep(millis(10)).await;
                permit.release().await.expect("released");
            }
        })
    });
    world.advance(secs(5));
    let before = world.stats_of("quiet").total_requests();
    world.advance(secs(5));
    let asked = world.stats_of("quiet").total_requests() - before;
    assert!(permit.is_held());

    // The holder still notices when the record is deleted.
    let began = world.now();
    operate(
        &world,
        Method::Delete,
        &format!("/v1/kv/{PREFIX}/.lock"),
        "",
    );
    let lost = world.run(permit.lost());
    assert!(matches!(lost, Lost::RemovedFromHolders { .. }), "{lost}");
    let noticed = world.now().saturating_since(began);
    assert!(noticed <= millis(1_100), "{noticed:?}");
    if let Some(taker) = taker {
        taker.abort();
    }
    asked
}

#[test]
fn who_only_holds_is_woken_once_a_second_where_others_have_their_turns_all_the_time() {
    let alone = asked_by_a_holder_beside(false);
    let beside_others = asked_by_a_holder_beside(true);
    // Each turn changes the record twice, so a simple watch would need 500 polls and more.
    assert!(beside_others <= alone + 7, "{beside_others}, alone {alone}");
}

/// If each of them entered separately, each would read the whole prefix.
#[test]
fn those_who_come_while_a_write_is_under_way_go_along_with_the_next() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 300);
    let spy = Spy::on(&world);
    let callers: Vec<_> = (0..200)
        .map(|_| {
            let handle = semaphore.clone();
            world.start(async move { handle.acquire().await.expect("a slot") })
        })
        .collect();
    let permits: Vec<_> = callers.into_iter().map(|it| world.run(it)).collect();
    let entered_alone = spy.count(|it| enters(it) && !writes_record(it));
    assert!(entered_alone <= 8, "{entered_alone}");
    let bytes = world.stats().bytes_down;
    let most = 1_500_000;
    assert!(bytes < most, "{bytes}");
    drop(permits);
}

/// Nothing is known at the beginning, and each process enters with several at once. If each of these
/// read the whole prefix, that would be most of the bytes until all have had a turn.
#[test]
fn where_twenty_processes_begin_together_one_of_each_reads_for_all_that_enter() {
    let world = MockConsul::new(1);
    world.set_latency(Duration::from_micros(500)..=Duration::from_micros(1_500));
    let spy = Spy::on(&world);
    let callers: Vec<_> = (0..20)
        .map(|number| semaphore(&world, &format!("process-{number}"), 100))
        .flat_map(|handle| vec![handle; 20])
        .map(|handle| {
            let sleeper = world.clone();
            world.start(async move {
                let permit = handle.acquire().await.expect("a slot");
                sleeper.sleep(millis(50)).await;
                permit.release().await.expect("released");
            })
        })
        .collect();
    for caller in callers {
        world.run(caller);
    }
    let reads = |it: &Request| String::from_utf8_lossy(it.body()).contains("get-tree");
    let entered_with_read = spy.count(reads);
    let bytes = world.stats().bytes_down;
    eprintln!("{entered_with_read} enter with a read, {bytes} bytes");
    let most = 400;
    assert!(entered_with_read <= most, "{entered_with_read}");
    let most = 8_000_000;
    assert!(bytes < most, "{bytes}");
}
