//! Several candidates under random faults. Never do two of them believe that they lead, tokens
//! rise, and somebody leads again after the faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use semaphore_core::{Election, FencingToken, Leadership};
use transport_mock::{Faults, MockConsul};

use crate::support::election::*;
use crate::support::*;

/// The leaderships that the candidates have at the moment.
type Seats = Arc<Mutex<Vec<Option<Leadership>>>>;

/// Campaigns again and again. Its leadership is in its seat while it lasts.
async fn contend(world: MockConsul, election: Election, seats: Seats, seat: usize, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    loop {
        let timeout = secs(rng.u64(1..60));
        if let Ok(leadership) = election.campaign_timeout(timeout).await {
            let held = secs(rng.u64(0..40));
            seats.lock().expect("no panic")[seat] = Some(leadership);
            world.sleep(held).await;
            let taken = seats.lock().expect("no panic")[seat].take();
            if let Some(leadership) = taken.filter(|_| rng.bool()) {
                let _ = leadership.resign().await;
            }
        }
        world.sleep(millis(rng.u64(0..2_000))).await;
    }
}

/// Checks after every step, until `end`.
fn watch(
    world: &MockConsul,
    seats: &Seats,
    newest: &mut Option<FencingToken>,
    (seed, span): (u64, u64),
) {
    let end = world.now() + secs(span);
    while world.step(end) {
        let seats = seats.lock().expect("no panic");
        let leads = |it: &&Leadership| it.is_leader();
        let leaders: Vec<_> = seats.iter().flatten().filter(leads).collect();
        assert!(leaders.len() <= 1, "two leaders, seed {seed}");
        for leader in leaders {
            let token = leader.fencing_token();
            assert!(newest.is_none_or(|newest| newest <= token), "{token}");
            *newest = Some(token);
        }
    }
}

fn run(seed: u64, faults: Faults) {
    run_with(seed, faults, 2.0, secs(15));
}

/// Runs in a Consul whose sessions live for `lifetime` TTLs, with this lock delay.
fn run_with(seed: u64, faults: Faults, lifetime: f64, lock_delay: Duration) {
    let world = MockConsul::new(seed);
    world.consul(|consul, _| consul.set_session_lifetime(lifetime));
    // A failing seed can be run again with a trace.
    world.set_tracing(false);
    world.set_faults(faults);
    let seats: Seats = Arc::new(Mutex::new((0..4).map(|_| None).collect()));
    let tasks: Vec<_> = (0..4)
        .map(|seat| {
            let host = format!("node-{seat}");
            let builder = builder_for(KEY).lock_delay(lock_delay);
            let election = elect_with(builder, &world.client(&host));
            let seats = Arc::clone(&seats);
            let seed = seed * 10 + u64::try_from(seat).expect("small");
            world.start(contend(world.clone(), election, seats, seat, seed))
        })
        .collect();
    let mut newest = None;
    watch(&world, &seats, &mut newest, (seed, 400));
    world.clear_faults();
    let before = newest;
    watch(&world, &seats, &mut newest, (seed, 200));
    assert!(newest > before, "nobody led any more, seed {seed}");
    for task in tasks {
        task.abort();
    }
    seats.lock().expect("no panic").clear();
    world.advance(secs(100));
    assert_only_key_left(&world);
}

#[test]
fn there_are_never_two_leaders_whatever_the_network_does() {
    for seed in 1..=5 {
        run(seed, Faults::chaos(0.05));
    }
}

#[test]
fn there_are_never_two_leaders_while_the_cluster_loses_its_own() {
    for seed in 20..=23 {
        let faults = Faults {
            leader_loss: 0.02,
            partition: 0.02,
            outage_up_to: secs(20),
            ..Faults::chaos(0.02)
        };
        run(seed, faults);
    }
}

/// The lock delay of 15 s is longer than a leader believes without an answer from Consul.
#[test]
fn there_are_never_two_leaders_although_operators_destroy_sessions() {
    for seed in 40..=43 {
        let faults = Faults {
            session_loss: 0.01,
            ..Faults::chaos(0.02)
        };
        run(seed, faults);
    }
}

/// Consul promises no more than the TTL. Then only the lease clock keeps them apart.
#[test]
fn there_are_never_two_leaders_although_nothing_but_the_lease_separates_them() {
    for seed in 60..=62 {
        let faults = Faults {
            partition: 0.01,
            outage_up_to: secs(60),
            ..Faults::none()
        };
        run_with(seed, faults, 1.0, secs(0));
    }
}
