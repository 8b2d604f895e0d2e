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

impl Outage {
    const ALL: [Self; 4] = [Self::Frozen, Self::CutOff, Self::Down, Self::Leaderless];
}

/// The length that a hold certainly survives, whenever it begins (PROMISES). The leases of a TTL
/// above a minute are as those of a minute.
fn survived(ttl: Duration) -> Duration {
    ttl * 4 / 5
}

/// The shortest TTL, the usual one, and the one with the longest lease.
const TTLS: [Duration; 3] = [secs(10), secs(15), secs(60)];

/// The times from the beginning of the hold to that of the outage: over several renewals.
fn moments(ttl: Duration) -> impl Iterator<Item = Duration> {
    (0..40).map(move |step| ttl / 15 + ttl * step / 110)
}

/// Calls `survives` with each outage, for each TTL, at each moment.
fn survive(survives: impl Fn(&MockConsul, Duration, &dyn Fn()) -> bool) {
    for outage in Outage::ALL {
        for ttl in TTLS {
            for after in moments(ttl) {
                let world = MockConsul::new(1);
                let pass = || {
                    world.advance(after);
                    outage.pass(&world, survived(ttl));
                    world.advance(ttl / 2);
                };
                let is_kept = survives(&world, ttl, &pass);
                assert!(is_kept, "{outage:?} {after:?} after a TTL of {ttl:?}");
            }
        }
    }
}

#[test]
fn a_slot_outlasts_the_promised_part_of_its_ttl_in_silence_whenever_that_begins() {
    survive(|world, ttl, pass| {
        let semaphore = connect(builder(1).ttl(ttl), &world.client("a"));
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        pass();
        permit.is_held()
    });
}

#[test]
fn a_leader_outlasts_the_promised_part_of_its_ttl_in_silence_whenever_that_begins() {
    survive(|world, ttl, pass| {
        let election = builder_for(KEY).ttl(ttl);
        let election = elect_with(election, &world.client("a"));
        let leadership = world.run(election.campaign()).expect("a free key");
        pass();
        leadership.is_leader()
    });
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

/// While answers are slow, renewals follow one another less closely.
#[test]
fn the_time_of_three_answers_less_is_outlasted_where_answers_take_long() {
    let ttl = secs(15);
    for outage in Outage::ALL {
        for answer in [millis(100), millis(1_600)] {
            for after in moments(ttl) {
                let world = MockConsul::new(1);
                let semaphore = semaphore(&world, "a", 1);
                let permit = world.run(semaphore.acquire()).expect("a free slot");
                world.set_latency(answer / 2..=answer / 2);
                world.advance(secs(5) + after);
                outage.pass(&world, (ttl * 4 / 5).saturating_sub(answer * 3));
                world.advance(ttl / 2);
                let case = format!("{outage:?} after {after:?}, answers of {answer:?}");
                assert!(permit.is_held(), "{case}");
            }
        }
    }
}
