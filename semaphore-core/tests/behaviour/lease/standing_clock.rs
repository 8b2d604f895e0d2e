//! A clock stands still while requests and answers are exchanged. It may be a coarse clock, one
//! that only a test moves, or a network that takes no time. The order of events is known all the
//! same.

use std::time::Duration;

use semaphore_core::sans_io::Machine as _;
use transport_mock::MockConsul;

use crate::support::bench::Bench;
use crate::support::*;

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
    bench.run_for(KEPT);
    bench.assert_nothing_left();
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
