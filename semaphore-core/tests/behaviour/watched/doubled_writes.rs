//! A proxy applies every write twice, and returns the second answer. So each check-and-set is refused, although it was
//! applied and nobody else has touched the key.

use semaphore_core::Error;
use semaphore_core::sans_io::Method;
use tracing::Level;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use super::log::logged;
use crate::support::election::{assert_only_key_left, election};
use crate::support::*;

/// A world with this proxy.
fn doubled() -> MockConsul {
    let world = MockConsul::new(5);
    world.inject(Rule::new(Fault::Twice).method(Method::Put).always());
    world
}

fn writes(world: &MockConsul) -> u64 {
    [RequestKind::Txn, RequestKind::KvCas, RequestKind::KvAcquire]
        .into_iter()
        .map(|kind| world.stats().requests_of(kind))
        .sum()
}

#[test]
fn a_waiter_whose_own_writes_are_refused_again_and_again_goes_slower_and_warns_once() {
    let world = doubled();
    let mut waiter = None;
    let lines = logged(Level::WARN, || {
        let semaphore = waiter.insert(semaphore(&world, "a", 1));
        let outcome = world.run(semaphore.acquire_timeout(secs(60)));
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    });
    let [line] = &lines[..] else {
        panic!("{lines:#?}\n{}", world.trace());
    };
    assert!(line.contains("service/db"), "{line}");
    let writes = writes(&world);
    assert!(
        writes < 80,
        "{writes} writes in a minute\n{}",
        world.trace()
    );
    world.clear_faults();
    world.run(waiter.expect("it waited").shutdown());
    world.advance(secs(60));
    let other = connect(builder(1), &world.client("b"));
    let permit = world.run(other.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_candidate_whose_own_writes_come_twice_leads_without_a_storm_of_writes() {
    let world = doubled();
    let candidate = election(&world, "a");
    let leadership = world.run(candidate.campaign_timeout(secs(60)));
    world.advance(secs(60));
    let writes = writes(&world);
    assert!(
        writes < 80,
        "{writes} writes in a minute\n{}",
        world.trace()
    );
    if let Ok(leadership) = leadership {
        world.run(leadership.resign()).expect("resigned");
    }
    world.clear_faults();
    world.run(candidate.shutdown());
    // Each session was made twice, and the first one ends by its TTL.
    world.advance(secs(60));
    assert_only_key_left(&world);
}
