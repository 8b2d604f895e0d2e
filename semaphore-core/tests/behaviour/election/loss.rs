//! Losing a leadership: each way has its own reason, and is noticed in time.

use semaphore_core::sans_io::Method;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{Election, Error, Leadership, Lost};
use transport_mock::MockConsul;

use crate::support::election::*;
use crate::support::stranger::operate;
use crate::support::*;

struct Leader {
    world: MockConsul,
    election: Election,
    leadership: Leadership,
}

impl Leader {
    fn new() -> Self {
        let world = MockConsul::new(1);
        let (election, leadership) = leader(&world);
        world.advance(secs(2));
        Self {
            world,
            election,
            leadership,
        }
    }

    fn session(&self) -> String {
        self.leadership.sequencer().session.to_string()
    }

    /// The loss, which one answer of the watch must show at once.
    #[track_caller]
    fn loses(&self) -> Lost {
        let before = self.world.now();
        let lost = self.world.run(self.leadership.lost());
        let took = self.world.now().saturating_since(before);
        assert!(took <= millis(5), "noticed after {took:?}");
        assert!(!self.leadership.is_leader());
        assert_eq!(self.leadership.remaining(), secs(0));
        lost
    }

    /// Asserts that nothing is left, that the resignation reports the loss, and that the handle
    /// still works.
    #[track_caller]
    fn ends(self) {
        self.world.advance(KEPT);
        assert_eq!(session_count(&self.world), 0, "{}", self.world.trace());
        let set = self.world.run(self.leadership.set_value("late"));
        assert!(matches!(set, Err(Error::Lost(_))), "{set:?}");
        let resigned = self.world.run(self.leadership.resign());
        assert!(matches!(resigned, Err(Error::Lost(_))), "{resigned:?}");
        if found(&self.world).is_none_or(|key| key.flags != 0) {
            let again = self.world.run(self.election.campaign()).expect("elected");
            self.world.run(again.resign()).expect("resigned");
            assert_only_key_left(&self.world);
        }
    }
}

#[test]
fn a_session_that_is_destroyed_ends_it() {
    let leader = Leader::new();
    let id = leader.session();
    leader
        .world
        .consul(|consul, now| consul.destroy_session(now, &id));
    assert!(matches!(leader.loses(), Lost::KeyReleased { .. }));
    leader.ends();
}

#[test]
fn whoever_campaigns_anew_after_a_loss_waits_a_moment() {
    let world = MockConsul::new(1);
    let builder = builder_for(KEY).lock_delay(secs(0));
    let election = elect_with(builder, &world.client("a"));
    let leadership = world.run(election.campaign()).expect("elected");
    let session = leadership.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    world.run(leadership.lost());
    let lost = world.now();
    let again = world.run(election.campaign()).expect("elected");
    let took = world.now().saturating_since(lost);
    assert!(took >= millis(50) && took <= millis(250), "{took:?}");
    assert!(again.is_leader());
}

#[test]
fn a_node_that_is_deregistered_ends_it() {
    let leader = Leader::new();
    leader
        .world
        .consul(|consul, now| consul.deregister_node(now, transport_mock::consul::NODE));
    assert!(matches!(leader.loses(), Lost::KeyReleased { .. }));
}

#[test]
fn a_key_that_an_operator_released_ends_it() {
    let leader = Leader::new();
    let target = format!(
        "/v1/kv/{KEY}?release={}&flags=3304740253564472344",
        leader.session()
    );
    operate(&leader.world, Method::Put, &target, "a");
    assert!(matches!(leader.loses(), Lost::KeyReleased { .. }));
    leader.ends();
}

#[test]
fn a_key_that_was_deleted_ends_it() {
    let leader = Leader::new();
    let target = format!("/v1/kv/{KEY}");
    operate(&leader.world, Method::Delete, &target, "");
    assert!(matches!(leader.loses(), Lost::KeyDeleted { .. }));
    leader.ends();
}

#[test]
fn a_key_that_was_overwritten_ends_it_and_keeps_what_was_written() {
    let leader = Leader::new();
    let target = format!("/v1/kv/{KEY}");
    operate(&leader.world, Method::Put, &target, "an operator's");
    assert!(matches!(leader.loses(), Lost::KeyOverwritten { .. }));
    leader.world.advance(secs(1));
    let key = found(&leader.world).expect("a key");
    assert_eq!((key.value.as_str(), key.flags), ("an operator's", 0));
    assert_eq!(key.session, "");
    leader.ends();
}

/// The simulator found this: a late release undid an operator's repair.
#[test]
fn whoever_finds_its_key_to_be_something_else_undoes_no_repair_of_it() {
    let leader = Leader::new();
    let target = format!("/v1/kv/{KEY}");
    operate(&leader.world, Method::Put, &target, "an operator's");
    assert!(matches!(leader.loses(), Lost::KeyOverwritten { .. }));
    let repaired = format!("{target}?flags={LOCK_FLAGS}");
    operate(&leader.world, Method::Put, &repaired, "repaired");
    leader.world.advance(KEPT);
    let key = found(&leader.world).expect("a key");
    assert_eq!((key.value.as_str(), key.flags), ("repaired", LOCK_FLAGS));
    assert_eq!(
        (key.session.as_str(), session_count(&leader.world)),
        ("", 0)
    );
}

#[test]
fn a_leader_out_of_reach_stops_before_its_session_expires() {
    let leader = Leader::new();
    let before = leader.world.now();
    leader.world.partition("a");
    let lost = leader.world.run(leader.leadership.lost());
    assert!(
        matches!(
            &lost,
            Lost::LeaseExpired {
                last_failure: Some(_),
                ..
            }
        ),
        "{lost:?}"
    );
    let took = leader.world.now().saturating_since(before);
    assert!(took >= secs(8) && took <= millis(13_500), "{took:?}");
    assert_eq!(session_count(&leader.world), 1, "the session still lives");
    leader.world.heal("a");
    leader.world.advance(secs(60));
    leader.ends();
}

#[test]
fn a_pause_of_the_process_ends_belief_without_any_io() {
    let world = MockConsul::new(1);
    let process = transport_mock::MockProcess::new(&world.client("a"));
    let election = builder_for(KEY).connect(process.clone()).expect("valid");
    let leadership = world.run(election.campaign()).expect("elected");
    process.pause();
    world.advance(secs(14));
    assert!(!leadership.is_leader());
    process.go_on();
    world.advance(millis(100));
    assert!(!leadership.is_leader(), "what has ended does not come back");
}

#[test]
fn a_leader_change_of_the_cluster_and_a_short_outage_cost_nothing() {
    let leader = Leader::new();
    let token = leader.leadership.fencing_token();
    leader.world.lose_leader();
    leader.world.advance(secs(5));
    leader.world.elect_leader();
    leader.world.advance(secs(30));
    leader.world.partition("a");
    leader.world.advance(secs(5));
    leader.world.heal("a");
    leader.world.advance(secs(60));
    assert!(leader.leadership.is_leader());
    assert_eq!(leader.leadership.fencing_token(), token);
}

#[test]
fn a_leader_behind_its_log_ends_nothing() {
    let world = MockConsul::new(1);
    let before = world.consul(|consul, _| consul.snapshot());
    let (_election, leadership) = leader(&world);
    world.advance(secs(7));
    world.elect_leader_behind(&before);
    world.advance(secs(3));
    world.catch_up_leader();
    world.advance(secs(60));
    assert!(leadership.is_leader(), "{}", world.trace());
}

#[test]
fn a_restored_snapshot_from_before_the_term_ends_it() {
    let world = MockConsul::new(1);
    let other = election(&world, "other");
    let first = world.run(other.campaign()).expect("elected");
    world.run(first.resign()).expect("resigned");
    let before = world.consul(|consul, _| consul.snapshot());
    let (_election, leadership) = leader(&world);
    world.advance(secs(2));
    world.consul(|consul, now| consul.restore(now, &before));
    let restored = world.now();
    world.run(leadership.lost());
    assert!(world.now().saturating_since(restored) <= secs(6));
}

#[test]
fn the_end_of_the_runtime_is_told() {
    let world = MockConsul::new(1);
    let process = transport_mock::MockProcess::new(&world.client("a"));
    let election = builder_for(KEY).connect(process.clone()).expect("valid");
    let leadership = world.run(election.campaign()).expect("elected");
    process.kill();
    assert!(matches!(
        world.run(leadership.lost()),
        Lost::RuntimeEnded { .. }
    ));
    assert!(!leadership.is_leader());
}
