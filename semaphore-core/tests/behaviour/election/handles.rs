//! What the handles of an election tell, those for threads included.

use semaphore_core::{Discovery, Error, Lost, Scope, blocking};
use transport_mock::MockConsul;

use crate::support::election::*;
use crate::support::*;

fn blocking_election(world: &MockConsul, host: &str) -> blocking::Election {
    let builder = builder_for(KEY).value(host);
    builder
        .connect_blocking(world.client(host))
        .expect("valid settings")
}

#[test]
fn a_leadership_tells_how_long_its_belief_lasts() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    world.advance(secs(30));
    let deadline = leadership.deadline().expect("a lease");
    let remaining = deadline.saturating_since(world.now());
    assert!(remaining > secs(8), "{remaining:?}");
    assert_eq!(leadership.remaining(), Some(remaining));
    let session = leadership.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    world.run(leadership.lost());
    assert_eq!(leadership.remaining(), Some(secs(0)));
    assert_eq!(leadership.deadline(), None);
}

#[test]
fn a_thread_is_told_the_same_of_its_leadership() {
    let world = MockConsul::new(1);
    let election = blocking_election(&world, "a");
    assert_eq!(election.key().as_str(), KEY);
    election
        .campaign()
        .expect("elected")
        .resign()
        .expect("resigned");
    let other = blocking_election(&world, "b");
    other
        .campaign()
        .expect("elected")
        .resign()
        .expect("resigned");
    let leadership = election.try_campaign().expect("tried").expect("free");
    assert_eq!(leadership.term(), 3);
    assert_eq!(leadership.sequencer().lock_index, 3);
    assert!(leadership.fencing_token().0 > 3);
    let deadline = leadership.deadline().expect("a lease");
    let remaining = deadline.saturating_since(world.now());
    assert!(remaining > secs(8), "{remaining:?}");
    assert_eq!(leadership.remaining(), Some(remaining));
}

#[test]
fn a_thread_that_waits_for_a_loss_waits_until_then_or_for_its_timeout() {
    let world = MockConsul::new(1);
    let election = blocking_election(&world, "a");
    let leadership = election.campaign().expect("elected");
    let before = world.now();
    assert!(leadership.lost_timeout(secs(40)).is_none());
    assert_eq!(world.now().saturating_since(before), secs(40));
    assert!(leadership.is_leader());
    let session = leadership.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    let lost = leadership.lost_timeout(secs(40));
    assert!(matches!(lost, Some(Lost::KeyReleased { .. })), "{lost:?}");
    assert!(matches!(leadership.lost(), Lost::KeyReleased { .. }));
    assert!(!leadership.is_leader());
    assert_eq!(leadership.deadline(), None);
    assert_eq!(leadership.remaining(), Some(secs(0)));
    let set = leadership.set_value("late");
    assert!(matches!(set, Err(Error::Lost(_))), "{set:?}");
    let resigned = leadership.resign();
    assert!(matches!(resigned, Err(Error::Lost(_))), "{resigned:?}");
}

#[test]
fn a_thread_closes_its_election_and_leads_on() {
    let world = MockConsul::new(1);
    let election = blocking_election(&world, "a");
    let leadership = election.campaign().expect("elected");
    election.close();
    let refused = election.campaign();
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    let refused = election.try_campaign();
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    assert!(leadership.is_leader());
    leadership.resign().expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn a_thread_that_follows_knows_when_consul_can_not_be_asked() {
    let world = MockConsul::new(1);
    let client = world.client("follower");
    let discovery = blocking::Discovery::connect(KEY, Scope::new(), client).expect("a key");
    let mut follower = discovery.follow();
    assert!(matches!(follower.next(), Some(Ok(_))));
    assert_eq!(follower.key().as_str(), KEY);
    assert!(!follower.is_interrupted());
    world.partition("follower");
    assert!(matches!(follower.next(), Some(Ok(_))));
    assert!(follower.is_interrupted());
}

#[test]
fn handles_show_what_they_are_of() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    let shown = format!("Election {{ key: {:?}, .. }}", election.key());
    assert_eq!(format!("{election:?}"), shown);
    assert_eq!(format!("{:?}", blocking_election(&world, "b")), shown);
    let shown = format!("{leadership:?}");
    assert!(
        shown.starts_with("Leadership { term: 1, fencing_token: "),
        "{shown}"
    );
    world.run(leadership.resign()).expect("resigned");
    let leadership = blocking_election(&world, "b").campaign().expect("elected");
    let shown = format!("{leadership:?}");
    assert!(
        shown.starts_with("Leadership { term: 2, fencing_token: "),
        "{shown}"
    );

    let client = world.client("looker");
    let discovery = Discovery::connect(KEY, Scope::new(), client.clone()).expect("a key");
    let threads = blocking::Discovery::connect(KEY, Scope::new(), client).expect("a key");
    let shown = format!("Discovery {{ key: {:?}, .. }}", election.key());
    assert_eq!(format!("{discovery:?}"), shown);
    assert_eq!(format!("{threads:?}"), shown);
    let shown = format!(
        "Follower {{ key: {:?}, current: None, .. }}",
        election.key()
    );
    assert_eq!(format!("{:?}", discovery.follow()), shown);
    assert_eq!(format!("{:?}", threads.follow()), shown);
}
