//! An agent comes back without its state, as a development agent does after a restart: its indexes
//! begin again, and no session, key or record is left.

use semaphore_core::adapter::Runtime as _;
use transport_mock::consul::Snapshot;
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::election::{election, leader};
use crate::support::*;

/// Returns the state of a new agent. From now on, indexes are higher than that agent's will be for
/// long.
fn long_used(world: &MockConsul) -> Snapshot {
    world.consul(|consul, _| {
        let empty = consul.snapshot();
        consul.advance_index(10_000);
        empty
    })
}

/// The agent is away for a second, and has lost everything.
fn lose_state(world: &MockConsul, empty: &Snapshot) {
    world.break_connections();
    world.inject(Rule::new(Fault::Refuse).always());
    world.advance(secs(1));
    world.consul(|consul, now| {
        consul.restore(now, empty);
        consul.reset_index(now);
    });
    world.clear_faults();
}

#[test]
fn a_waiter_is_granted_soon_after_an_agent_has_lost_its_state() {
    let world = MockConsul::new(1);
    let empty = long_used(&world);
    let [first, second, third] = ["a", "b", "c"].map(|host| {
        let builder = builder(1);
        connect(builder, &world.client(host))
    });
    let permit = world.run(first.acquire()).expect("a free slot");
    let waiting = [second, third].map(|semaphore| {
        let client = world.client("clock");
        let waiting = world.start(async move {
            let permit = semaphore.acquire_timeout(secs(120)).await;
            let granted_at = client.now();
            let released = permit.expect("a free slot").release().await;
            released.expect("released");
            granted_at
        });
        world.advance(secs(1));
        waiting
    });
    world.advance(secs(30));
    lose_state(&world, &empty);
    let since = world.now();
    for waiting in waiting {
        let took = world.run(waiting).saturating_since(since);
        assert!(took < secs(3), "{took:?}\n{}", world.trace());
    }
    drop(permit);
    world.advance(secs(30));
    assert_nothing_left(&world);
}

#[test]
fn a_candidate_leads_soon_after_an_agent_has_lost_its_state() {
    let world = MockConsul::new(1);
    let empty = long_used(&world);
    let (_election, _leadership) = leader(&world);
    let next = election(&world, "b");
    let waiting = world.start(async move { next.campaign().await });
    world.advance(secs(30));
    lose_state(&world, &empty);
    let since = world.now();
    let _leadership = world.run(waiting).expect("elected");
    let took = world.now().saturating_since(since);
    assert!(took < secs(3), "{took:?}\n{}", world.trace());
}
