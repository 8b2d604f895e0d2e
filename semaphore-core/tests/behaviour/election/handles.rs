//! What the handles of an election report, including those for threads.

use semaphore_core::{Discovery, Error, Lost, SequencerStatus, blocking};
use transport_mock::MockConsul;
use transport_mock::consul::{Access, Policy};

use crate::support::election::*;
use crate::support::*;

fn blocking_election(world: &MockConsul, host: &str) -> blocking::Election {
    blocking::Election::builder(KEY)
        .value(host)
        .connect(world.client(host))
        .expect("valid settings")
}

#[test]
fn a_leadership_tells_how_long_its_belief_lasts() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    world.advance(secs(30));
    let remaining = leadership.remaining();
    assert!(remaining > secs(8), "{remaining:?}");
    let session = leadership.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    world.run(leadership.lost());
    assert_eq!(leadership.remaining(), secs(0));
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
    let remaining = leadership.remaining();
    assert!(remaining > secs(8), "{remaining:?}");
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
    assert_eq!(leadership.remaining(), secs(0));
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
    assert!(!election.is_closed());
    election.close();
    assert!(election.is_closed());
    let refused = election.campaign();
    assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
    let refused = election.try_campaign();
    assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
    assert!(leadership.is_leader());
    leadership.resign().expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn a_thread_that_follows_knows_when_consul_can_not_be_asked() {
    let world = MockConsul::new(1);
    let client = world.client("follower");
    let discovery = blocking::Discovery::builder(KEY)
        .connect(client)
        .expect("a key");
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
    let discovery = Discovery::builder(KEY)
        .connect(client.clone())
        .expect("a key");
    let threads = blocking::Discovery::builder(KEY)
        .connect(client)
        .expect("a key");
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

#[test]
fn an_election_leads_to_the_discovery_of_its_leader() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    let discovery = election.discovery();
    assert_eq!(discovery.key(), election.key());
    let found = world.run(discovery.leader()).expect("an answer");
    assert_eq!(
        found.expect("a leader").sequencer(),
        *leadership.sequencer()
    );
    let status = world.run(discovery.verify(leadership.sequencer()));
    assert_eq!(status.expect("an answer"), SequencerStatus::Current);
    world.run(leadership.resign()).expect("resigned");
    election.close();
    assert_eq!(world.run(discovery.leader()).expect("an answer"), None);

    let threads = blocking_election(&world, "b");
    let leadership = threads.campaign().expect("elected");
    let found = threads.discovery().leader().expect("an answer");
    assert_eq!(
        found.expect("a leader").sequencer(),
        *leadership.sequencer()
    );
}

#[test]
fn the_discovery_of_an_election_asks_with_its_token() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("t", Policy::new().with_key(KEY, Access::Read));
    });
    let builder = builder_for(KEY).token("t");
    let election = elect_with(builder, &world.client("a"));
    assert_eq!(
        world.run(election.discovery().leader()).expect("read"),
        None
    );
    let other = elect_with(builder_for(KEY), &world.client("b"));
    let refused = world.run(other.discovery().leader());
    assert!(matches!(refused, Err(Error::Request(_))), "{refused:?}");
}
