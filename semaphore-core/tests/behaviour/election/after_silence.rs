//! After silence, a watch starts again: the indexes that it knew may be outdated.

use semaphore_core::Lost;
use transport_mock::MockConsul;

use crate::support::election::*;
use crate::support::*;

/// The data moves to a new cluster that counts from the beginning. Requests under way are lost.
fn move_to_a_new_cluster(world: &MockConsul) {
    world.break_connections();
    world.consul(transport_mock::consul::Consul::reset_index);
}

#[test]
fn a_candidate_sees_at_once_that_the_key_is_free_although_indexes_went_backwards() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| consul.advance_index(1_000_000));
    let (_a, first) = leader(&world);
    let b = election(&world, "b");
    let second = world.start(async move { b.campaign().await.map(|it| (b, it)) });
    world.advance(secs(5));
    move_to_a_new_cluster(&world);
    world.advance(secs(1));
    drop(first);
    let before = world.now();
    let (_b, second) = world.run(second).expect("elected");
    assert!(second.is_leader());
    let took = world.now().saturating_since(before);
    assert!(took < secs(2), "{took:?}\n{}", world.trace());
}

#[test]
fn a_leader_learns_at_once_that_its_term_is_known_by_other_indexes() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| consul.advance_index(1_000_000));
    let (_a, leadership) = leader(&world);
    world.advance(secs(5));
    move_to_a_new_cluster(&world);
    let before = world.now();
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::KeyDeleted { .. }), "{lost}");
    let took = world.now().saturating_since(before);
    assert!(took < secs(2), "{took:?}\n{}", world.trace());
}
