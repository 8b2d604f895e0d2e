//! A script that elects as in Consul's guide, with `curl`, sends no flags. It and our candidates
//! share one leader.

use semaphore_core::sans_io::Method;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{Conflict, Discovery, Election, Error, Leadership, Lost, SequencerStatus};
use transport_mock::{MockConsul, Task};

use crate::support::election::*;
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

/// Acquires the key as in the guide.
fn acquires(world: &MockConsul, guide: &Stranger, value: &str) -> bool {
    let target = format!("/v1/kv/{KEY}?acquire={}", guide.session);
    let answer = guide.call(world, Method::Put, &target, value);
    answer.body().trim_ascii() == b"true"
}

/// A leader that follows the guide, without a lock delay.
fn leads(world: &MockConsul) -> Stranger {
    let guide = Stranger::session_with(world, r#"{"Name":"dbservice","LockDelay":"0s"}"#);
    assert!(acquires(world, &guide, "guide"));
    guide
}

type Campaign = Task<Result<(Election, Leadership), Error>>;

fn campaigns(world: &MockConsul) -> Campaign {
    let election = election(world, "a");
    world.start(async move { election.campaign().await.map(|it| (election, it)) })
}

#[test]
fn a_leader_of_the_guides_is_waited_for_and_followed_when_it_steps_down() {
    let world = MockConsul::new(1);
    let guide = leads(&world);
    let mut waiting = campaigns(&world);
    world.advance(secs(60));
    assert!(waiting.try_take().is_none());
    // The release in the guide has no body, so the value is empty afterwards.
    let target = format!("/v1/kv/{KEY}?release={}", guide.session);
    guide.call(&world, Method::Put, &target, "");
    let (_election, leadership) = world.run(waiting).expect("elected");
    assert_eq!(leadership.term(), 2);
    let key = found(&world).expect("a key");
    assert_eq!((key.value.as_str(), key.flags), ("a", LOCK_FLAGS));
    assert!(!acquires(&world, &guide, "guide"));
    assert!(leadership.is_leader());
}

#[test]
fn a_leader_of_the_guides_that_ends_leaves_its_value_and_is_followed() {
    let world = MockConsul::new(1);
    let guide = leads(&world);
    let waiting = campaigns(&world);
    world.advance(secs(5));
    world.consul(|consul, now| consul.destroy_session(now, guide.session.as_str()));
    let ended = world.now();
    let (_election, leadership) = world.run(waiting).expect("elected");
    assert!(world.now().saturating_since(ended) < secs(2));
    assert_eq!(leadership.term(), 2);
    // The next leader need not have waited.
    world.run(leadership.resign()).expect("resigned");
    let again = world.run(election(&world, "b").try_campaign());
    assert!(again.expect("an answer").is_ok());
}

#[test]
fn what_a_leader_of_the_guides_left_long_ago_may_be_taken() {
    let world = MockConsul::new(1);
    let guide = leads(&world);
    world.consul(|consul, now| consul.destroy_session(now, guide.session.as_str()));
    world.advance(secs(100));
    assert_eq!(found(&world).expect("a key").value, "guide");
    let leadership = world.run(campaigns(&world)).expect("elected").1;
    assert_eq!(leadership.term(), 2);
}

#[test]
fn whoever_elects_as_the_guide_does_follows_one_of_ours() {
    let world = MockConsul::new(1);
    let (_election, first) = leader(&world);
    let token = first.fencing_token();
    let guide = Stranger::session_with(&world, r#"{"LockDelay":"0s"}"#);
    assert!(!acquires(&world, &guide, "guide"));
    world.run(first.resign()).expect("resigned");
    assert!(acquires(&world, &guide, "guide"));
    let mut waiting = campaigns(&world);
    world.advance(secs(20));
    assert!(waiting.try_take().is_none());
    world.consul(|consul, now| consul.destroy_session(now, guide.session.as_str()));
    let (_election, third) = world.run(waiting).expect("elected");
    assert_eq!(third.term(), 3);
    assert!(third.fencing_token() > token);
}

#[test]
fn a_leader_of_the_guides_is_found_and_its_sequencer_is_current() {
    let world = MockConsul::new(1);
    let guide = leads(&world);
    let _waiting = campaigns(&world);
    world.advance(secs(1));
    let discovery = Discovery::builder(KEY)
        .connect(world.client("looker"))
        .expect("a key");
    let leader = world
        .run(discovery.leader())
        .expect("an answer")
        .expect("a leader");
    assert_eq!((leader.text(), leader.lock_index), (Some("guide"), 1));
    let verify = || {
        world
            .run(discovery.verify(&leader.sequencer()))
            .expect("an answer")
    };
    assert_eq!(verify(), SequencerStatus::Current);
    world.consul(|consul, now| consul.destroy_session(now, guide.session.as_str()));
    world.advance(secs(2));
    assert_eq!(verify(), SequencerStatus::Stale);
}

/// If another process takes the leader's key by a release and without flags, it counts as the next
/// leader, not as foreign data.
#[test]
fn a_leader_whose_key_the_guides_way_takes_is_told_who_has_it() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let guide = Stranger::session_with(&world, r#"{"LockDelay":"0s"}"#);
    let session = &leadership.sequencer().session;
    world.partition("a");
    operate(
        &world,
        Method::Put,
        &format!("/v1/kv/{KEY}?release={session}"),
        "",
    );
    assert!(acquires(&world, &guide, "guide"));
    world.heal("a");
    let lost = world.run(leadership.lost());
    assert!(
        matches!(&lost, Lost::KeyTaken { by, .. } if *by == guide.session),
        "{lost:?}"
    );
}

/// The guide's contenders for a semaphore send no flags, too.
#[test]
fn a_contender_key_of_the_guides_is_no_election() {
    let world = MockConsul::new(1);
    let guide = Stranger::session(&world);
    let key = guide.key();
    let target = format!("/v1/kv/{key}?acquire={}", guide.session);
    guide.call(&world, Method::Put, &target, "node-1");
    let election = elect_with(builder_for(&key), &world.client("a"));
    let conflict = |outcome: Error| match outcome {
        Error::NotAnElection { conflict, .. } => conflict,
        other => panic!("{other:?}"),
    };
    let refused = world.run(election.campaign()).expect_err("a conflict");
    assert_eq!(conflict(refused), Conflict::Semaphore);
    let discovery = Discovery::builder(&key)
        .connect(world.client("b"))
        .expect("a key");
    let refused = world.run(discovery.leader()).expect_err("a conflict");
    assert_eq!(conflict(refused), Conflict::Semaphore);
}
