//! A clock stands still while requests and answers are exchanged. It may be a coarse clock, one
//! that only a test moves, or a network that takes no time. The order of events is known all the
//! same.

use std::time::Duration;

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Event, Grant, Request, Response};
use transport_mock::MockConsul;

use crate::support::bench::{Bench, is_read};
use crate::support::steps::enters;
use crate::support::*;

// Goes with the machine that needs it: later nobody reads before it enters.
#[cfg(not(semaphore_next))]
#[test]
fn a_read_that_was_sent_before_the_grant_is_no_loss_even_if_the_leader_confirms_it() {
    let mut bench = Bench::new(1, 1);
    let first = bench.acquire();
    bench.run_for(secs(1));
    // While a poll is under way, the next acquisition starts with a read beside it.
    let poll = bench.lose_poll();
    bench.participant.release(bench.now, first);
    bench.turn();
    let before = bench.read();
    bench.keep(is_confirmed_by_the_leader);
    let holder = bench.acquire();
    bench.turn();
    let read = bench.take_kept();
    let in_queue = bench.read();
    bench.answer(poll, Ok(in_queue));
    assert!(bench.participant.is_held(bench.now, holder));

    bench.answer(read, Ok(before));
    bench.pass_on_kept();
    assert!(bench.participant.is_held(bench.now, holder));
    let is_loss = |event: &Event<Grant>| matches!(event, Event::Lost { .. });
    assert!(!bench.events.iter().any(is_loss));
}

// Goes with the machine that needs it: later nobody reads before it enters.
#[cfg(not(semaphore_next))]
#[test]
fn a_read_that_was_sent_before_the_key_was_acquired_does_not_miss_it() {
    let mut bench = Bench::new(1, 1);
    let before = bench.read();
    bench.keep(is_read);
    let acquire = bench.acquire();
    bench.turn();
    let read = bench.take_kept();
    bench.answer(read, Ok(before));
    bench.pass_on_kept();
    bench.run_for(secs(1));
    assert!(bench.participant.is_held(bench.now, acquire));
    assert_eq!(sent(&bench, "/v1/session/create"), 1, "{:#?}", bench.sent);
}

#[test]
fn a_slot_goes_from_hand_to_hand_while_the_clock_stands_still() {
    let mut bench = Bench::new(1, 1);
    let start = bench.now;
    let acquires = [(); 5].map(|()| bench.acquire());
    bench.turn();
    for acquire in acquires {
        assert!(
            bench.participant.is_held(start, acquire),
            "{:#?}",
            bench.sent
        );
        bench.participant.release(start, acquire);
        bench.turn();
        assert_eq!(bench.released(acquire), 1);
    }
    assert_eq!(bench.now, start);
    assert!(bench.sent.len() <= 10 * acquires.len(), "{:#?}", bench.sent);
    // Sessions may be kept for a second.
    bench.run_for(secs(2));
    bench.assert_nothing_left();
}

// Goes with the machine that needs it: later an answer that is ignored is asked for again after a pause.
#[cfg(not(semaphore_next))]
#[test]
fn polls_and_the_reads_beside_them_stay_below_one_ceiling_while_the_clock_stands_still() {
    // Our writes allow more reads. So with each number of callers, another kind of read is the last
    // one.
    for callers in 1..=3 {
        let mut bench = Bench::new(1, callers);
        // Nobody's key is ever seen.
        bench.keep(|request| is_read(request) || enters(request));
        for _ in 0..callers {
            bench.acquire();
        }
        bench.turn();
        let mut polls = 0;
        let mut confirmed = 0;
        while !bench.kept.is_empty() {
            let entering = bench.kept.iter().position(|(_, it)| enters(it));
            let (id, request) = bench.kept.remove(entering.unwrap_or(0));
            if entering.is_some() {
                bench.apply_untold(id, &request);
                continue;
            }
            // The agent lags behind the leader, so its polls are doubted.
            let index = if is_confirmed_by_the_leader(&request) {
                confirmed += 1;
                "20"
            } else {
                polls += 1;
                "10"
            };
            let empty = Response::new(404, "").with_header("X-Consul-Index", index);
            bench.answer(id, Ok(empty));
        }
        assert!(confirmed > 10, "{:#?}", bench.sent);
        // One read per deleted key, and one for all acquired keys. At most 50 can be saved up, and
        // only one had been used by then.
        assert!(polls + confirmed <= 50 + 1 + callers, "{:#?}", bench.sent);
    }
}

#[test]
fn participants_who_contend_over_a_network_that_takes_no_time_send_few_requests() {
    const ROUNDS: u64 = 10;
    for seed in 0..20 {
        let world = MockConsul::new(seed);
        world.set_latency(Duration::ZERO..=Duration::ZERO);
        let hosts = ["a", "b", "c"];
        let semaphores = hosts.map(|host| semaphore(&world, host, 1));
        world.run(async {
            let users = semaphores.map(|semaphore| {
                world.start(async move {
                    for _ in 0..ROUNDS {
                        let permit = semaphore.acquire().await.expect("a slot");
                        permit.release().await.expect("released");
                    }
                })
            });
            for user in users {
                user.await;
            }
        });
        assert_nothing_left(&world);
        for host in hosts {
            let requests = world.stats_of(host).total_requests();
            assert!(
                requests <= 20 * ROUNDS,
                "{host}: {requests}\n{}",
                world.trace()
            );
        }
    }
}

fn is_confirmed_by_the_leader(request: &Request) -> bool {
    is_read(request) && request.target().contains("consistent")
}

fn sent(bench: &Bench, target: &str) -> usize {
    bench
        .sent
        .iter()
        .filter(|line| line.contains(target))
        .count()
}
