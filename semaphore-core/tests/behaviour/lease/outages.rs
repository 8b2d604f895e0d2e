//! Outages that begin at any moment.

use std::time::Duration;

use transport_mock::{Fault, MockConsul, Rule};

use crate::support::election::*;
use crate::support::*;

/// The kinds of outages.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// Consul is frozen, and continues where it was.
    Frozen,
    /// Every message is lost.
    CutOff,
    /// Nobody listens at the address.
    Down,
    /// Consul says that it has no leader.
    Leaderless,
}

impl Outage {
    fn pass(self, world: &MockConsul, time: Duration) {
        match self {
            Self::Frozen => {
                world.stall("a");
                world.advance(time);
                world.heal("a");
            }
            Self::CutOff => {
                world.partition("a");
                world.advance(time);
                world.heal("a");
            }
            Self::Down => answering(world, Fault::Refuse, time),
            Self::Leaderless => answering(world, Fault::no_leader(), time),
        }
    }
}

fn answering(world: &MockConsul, fault: Fault, time: Duration) {
    world.inject(Rule::new(fault).host("a").always());
    world.advance(time);
    world.clear_faults();
}

/// For each kind of outage, the length that a hold certainly survives with a TTL of 15 s, whenever
/// it begins.
fn outages() -> [(Outage, Duration); 4] {
    [
        (Outage::Frozen, millis(11_500)),
        (Outage::CutOff, secs(11)),
        (Outage::Down, millis(11_500)),
        (Outage::Leaderless, millis(11_500)),
    ]
}

/// The times from the beginning of the hold to that of the outage.
fn moments() -> impl Iterator<Item = Duration> {
    (0..48).map(|tenth| millis(1_000 + 110 * tenth))
}

#[test]
fn a_slot_outlasts_an_outage_of_three_quarters_of_its_ttl_whenever_it_begins() {
    for (outage, time) in outages() {
        for after in moments() {
            let world = MockConsul::new(1);
            let semaphore = semaphore(&world, "a", 1);
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            world.advance(after);
            outage.pass(&world, time);
            world.advance(secs(20));
            assert!(permit.is_held(), "{outage:?} after {after:?}");
        }
    }
}

#[test]
fn a_leader_outlasts_an_outage_of_three_quarters_of_its_ttl_whenever_it_begins() {
    for (outage, time) in outages() {
        for after in moments() {
            let world = MockConsul::new(1);
            let (_election, leadership) = leader(&world);
            world.advance(after);
            outage.pass(&world, time);
            world.advance(secs(20));
            assert!(leadership.is_leader(), "{outage:?} after {after:?}");
        }
    }
}

#[test]
fn four_fifths_of_the_ttl_are_left_of_a_lease_at_any_moment() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    // In the first moments, the lease may have begun while the caller still waited.
    world.advance(millis(300));
    for _ in 0..2_000 {
        world.advance(millis(17));
        assert!(permit.remaining() > secs(12), "{:?}", permit.remaining());
    }
}
