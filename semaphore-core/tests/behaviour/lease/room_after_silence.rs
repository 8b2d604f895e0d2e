//! Many semaphores of one host hold, each alone, and share the connections of one transport. Then every message is lost
//! for a while, and the lost requests keep their connections. Afterwards each renewal finds room (invariant L4).

use semaphore_core::adapter::MOST_CONNECTIONS;
use transport_mock::MockConsul;

use crate::support::*;

/// How many hold after a silence of nearly four fifths of the TTL, which began `at` this time after the last one was granted.
fn held_after_silence(semaphores: usize, ttl: u64, at: u64) -> usize {
    let world = MockConsul::new(1);
    world.set_latency(millis(1)..=millis(5));
    world.set_max_connections(Some(150));
    let transport = world.client("a").pooled(MOST_CONNECTIONS).expect("some");
    let semaphores: Vec<_> = (0..semaphores)
        .map(|number| {
            let builder = builder_of(&format!("own/{number}"), 2).ttl(secs(ttl));
            builder.connect(transport.clone()).expect("valid settings")
        })
        .collect();
    let permits: Vec<_> = semaphores
        .iter()
        .map(|semaphore| {
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            world.advance(millis(70));
            permit
        })
        .collect();
    world.advance(millis(at));
    world.partition("a");
    world.advance(millis(ttl * 800 - 100));
    world.heal("a");
    world.advance(secs(ttl * 3 / 2));
    permits.iter().filter(|it| it.is_held()).count()
}

fn all_outlast(cases: &[(usize, u64)]) {
    for (semaphores, ttl) in cases {
        for at in [5_000, 6_100] {
            let held = held_after_silence(*semaphores, *ttl, at);
            assert_eq!(held, *semaphores, "with a TTL of {ttl} s, from {at} ms on");
        }
    }
}

/// Seed 120511553881732439 of the simulator found it with 31.
#[test]
fn what_many_semaphores_hold_outlasts_lost_requests_that_keep_their_connections() {
    all_outlast(&[(8, 10), (31, 10), (4, 15), (31, 15)]);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn what_a_hundred_hold_outlasts_lost_requests_that_keep_their_connections() {
    all_outlast(&[(31, 20), (100, 20), (31, 60)]);
}
