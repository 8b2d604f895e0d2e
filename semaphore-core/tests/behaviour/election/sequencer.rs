//! Sequencers: what a third party can check.

use semaphore_core::sans_io::Method;
use semaphore_core::{Sequencer, SequencerStatus};
use transport_mock::MockConsul;

use crate::support::stranger::operate;
use crate::support::*;

#[test]
fn it_names_the_contender_key_its_session_and_lock_index() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let [sequencer] = permit.sequencers() else {
        panic!("one for one slot");
    };
    let [session] = holders(&world).try_into().expect("one holder");
    assert_eq!(sequencer.session.as_str(), session);
    assert_eq!(sequencer.key, format!("{PREFIX}/{session}"));
    assert_eq!(sequencer.lock_index, 1);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn it_is_current_while_held_and_stale_after_the_release() {
    let world = MockConsul::new(1);
    let [holder, checker] = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(holder.acquire()).expect("a free slot");
    let text = permit.sequencers()[0].to_string();
    let sequencer: Sequencer = text.parse().expect("a sequencer");
    assert_eq!(sequencer, permit.sequencers()[0]);
    let status = |world: &MockConsul| world.run(checker.verify(&sequencer)).expect("an answer");
    assert_eq!(status(&world), SequencerStatus::Current);
    world.advance(secs(60));
    assert_eq!(status(&world), SequencerStatus::Current);
    world.run(permit.release()).expect("released");
    assert_eq!(status(&world), SequencerStatus::Stale);
    assert_nothing_left(&world);
}

#[test]
fn each_of_several_permits_has_one() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let permit = world.run(semaphore.acquire_many(3)).expect("free slots");
    let mut sessions: Vec<_> = permit
        .sequencers()
        .iter()
        .map(|sequencer| sequencer.session.to_string())
        .collect();
    sessions.sort_unstable();
    let mut expected = holders(&world);
    expected.sort_unstable();
    assert_eq!(sessions, expected);
    for sequencer in permit.sequencers() {
        let status = world.run(semaphore.verify(sequencer)).expect("an answer");
        assert_eq!(status, SequencerStatus::Current);
    }
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn it_is_stale_when_the_session_is_gone() {
    let world = MockConsul::new(1);
    let [holder, checker] = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(holder.acquire()).expect("a free slot");
    let sequencer = permit.sequencers()[0].clone();
    world.consul(|consul, now| consul.destroy_session(now, sequencer.session.as_str()));
    let status = world.run(checker.verify(&sequencer)).expect("an answer");
    assert_eq!(status, SequencerStatus::Stale);
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn it_is_stale_when_the_key_was_acquired_anew() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let sequencer = permit.sequencers()[0].clone();
    for verb in ["release", "acquire"] {
        let target = format!("/v1/kv/{}?{verb}={}", sequencer.key, sequencer.session);
        operate(&world, Method::Put, &target, "");
    }
    let status = world.run(semaphore.verify(&sequencer)).expect("an answer");
    assert_eq!(status, SequencerStatus::Stale);
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn what_can_not_be_read_is_neither_current_nor_stale() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let sequencer = permit.sequencers()[0].clone();
    world.lose_leader();
    let status = world.run(semaphore.verify(&sequencer)).expect("a status");
    assert_eq!(status, SequencerStatus::Unknown);
    world.elect_leader();
    drop(permit);
    world.advance(secs(10));
    assert_nothing_left(&world);
}
