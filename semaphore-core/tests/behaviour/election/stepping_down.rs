//! Ending a term: by the leader itself, through a reference, and through the election's handle
//! while another part of the program has the leadership.

use std::sync::Arc;

use futures_util::future::join;
use semaphore_core::error::Awaited;
use semaphore_core::{Error, LeaderEvent, Lost, blocking};
use transport_mock::{MockConsul, MockProcess};

use crate::support::election::*;
use crate::support::*;

#[test]
fn a_resignation_by_reference_may_be_repeated_and_all_wait_for_the_same_end() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let (first, second) = world.run(join(leadership.resign(), leadership.resign()));
    first.expect("resigned");
    second.expect("resigned");
    assert_only_key_left(&world);
    assert!(!leadership.is_leader());
    world.run(leadership.resign()).expect("nothing is left");
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::SteppedDown), "{lost:?}");
}

#[test]
fn whoever_waits_for_the_loss_is_told_at_once_that_the_leader_resigned() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let leadership = Arc::new(leadership);
    world.partition("a");
    let resigning = Arc::clone(&leadership);
    let resigning = world.start(async move { resigning.resign().await });
    let before = world.now();
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::SteppedDown), "{lost:?}");
    assert_eq!(world.now(), before);
    world.heal("a");
    world.run(resigning).expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn a_resignation_whose_future_is_dropped_goes_on_in_the_background() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    {
        let resigning = std::pin::pin!(leadership.resign());
        let now = std::pin::pin!(std::future::ready(()));
        world.run(futures_util::future::select(resigning, now));
    }
    assert!(!leadership.is_leader());
    drop(leadership);
    world.advance(secs(1));
    assert_only_key_left(&world);
}

#[test]
fn a_clone_steps_down_while_another_task_has_the_leadership() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    let clone = election.clone();
    let next = world.start(async move { clone.campaign().await });
    world.run(election.step_down()).expect("stepped down");
    assert!(!leadership.is_leader());
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::SteppedDown), "{lost:?}");
    let next = world.run(next).expect("elected");
    assert!(next.fencing_token() > leadership.fencing_token());
    // Resigning the former leadership does not touch the present one.
    world.run(leadership.resign()).expect("nothing is left");
    drop(leadership);
    world.advance(secs(1));
    assert!(next.is_leader());
    world.run(next.resign()).expect("resigned");
    world.run(election.step_down()).expect("nobody leads");
    assert_only_key_left(&world);
}

#[test]
fn stepping_down_ends_although_the_leadership_is_dropped_meanwhile() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    world.partition("a");
    let clone = election.clone();
    let stepping_down = world.start(async move { clone.step_down().await });
    world.advance(secs(1));
    drop(leadership);
    world.heal("a");
    world.run(stepping_down).expect("stepped down");
    assert_only_key_left(&world);
}

#[test]
fn whoever_led_and_lost_it_is_told_of_the_loss_and_not_of_stepping_down() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    let session = leadership.sequencer().session.clone();
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    world.advance(secs(1));
    world.run(election.step_down()).expect("nobody leads");
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::KeyReleased { .. }), "{lost:?}");
    let resigned = world.run(leadership.resign());
    assert!(matches!(resigned, Err(Error::Lost(_))), "{resigned:?}");
}

#[test]
fn a_shutdown_does_not_wait_for_who_keeps_the_leadership() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    world.run(election.shutdown());
    assert_only_key_left(&world);
    assert!(!leadership.is_leader());
    let lost = world.run(leadership.lost());
    assert!(matches!(lost, Lost::SteppedDown), "{lost:?}");
    let refused = world.run(election.campaign());
    assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
}

#[test]
fn a_shutdown_waits_for_its_timeout_at_most_and_goes_on_afterwards() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    world.partition("a");
    let before = world.now();
    let late = world.run(election.shutdown_timeout(secs(2)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    assert_eq!(world.now().saturating_since(before), secs(2));
    assert!(!leadership.is_leader());
    world.heal("a");
    let ended = world.run(election.shutdown_timeout(secs(60)));
    ended.expect("nothing is left");
    assert_only_key_left(&world);
}

#[test]
fn a_shutdown_without_consul_ends_by_when_the_session_has() {
    let world = MockConsul::new(1);
    let (election, _leadership) = leader(&world);
    world.partition("a");
    let before = world.now();
    world.run(election.shutdown());
    let took = world.now().saturating_since(before);
    assert!(took <= secs(30), "twice the TTL: {took:?}");
}

#[test]
fn a_value_that_is_not_set_in_time_is_set_later() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    world.partition("a");
    let before = world.now();
    let late = world.run(leadership.set_value_timeout("b", secs(1)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    assert_eq!(world.now().saturating_since(before), secs(1));
    world.heal("a");
    world.advance(secs(5));
    assert_eq!(found(&world).expect("a key").value, "b");
}

#[test]
fn a_resignation_waits_no_longer_than_it_may_and_goes_on_afterwards() {
    let world = MockConsul::new(1);
    let (election, leadership) = leader(&world);
    world
        .run(leadership.resign_timeout(secs(2)))
        .expect("in time");
    assert_only_key_left(&world);

    let leadership = world.run(election.campaign()).expect("elected");
    world.partition("a");
    let before = world.now();
    let late = world.run(leadership.resign_timeout(secs(2)));
    assert_late(late, Awaited::Release, "was not given back");
    assert_eq!(world.now().saturating_since(before), secs(2));
    assert!(!leadership.is_leader());
    world.heal("a");
    world.run(leadership.resign()).expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn a_thread_resigns_within_its_time() {
    let world = MockConsul::new(1);
    let election = blocking::Election::builder(KEY)
        .connect(world.client("a"))
        .expect("valid settings");
    let leadership = election.campaign().expect("elected");
    leadership.resign_timeout(secs(2)).expect("in time");
    let leadership = election.campaign().expect("elected");
    world.partition("a");
    let before = world.now();
    let late = leadership.resign_timeout(secs(2));
    assert_late(late, Awaited::Release, "was not given back");
    assert_eq!(world.now().saturating_since(before), secs(2));
    world.heal("a");
    election.shutdown();
    assert_only_key_left(&world);
}

/// Every end of a leadership that has a time limit, while nobody runs the driver.
#[test]
fn what_has_a_time_ends_by_the_callers_clock_where_nobody_runs_the_driver() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    let election = builder_for(KEY).connect(process.clone()).expect("settings");
    let leadership = world.run(election.campaign()).expect("elected");
    process.pause();
    world.advance(secs(3));
    let timed = |ends: Result<(), Error>, what| assert_late(ends, what, "nobody ran the task");
    let before = world.now();
    timed(
        world.run(leadership.set_value_timeout("b", secs(2))),
        Awaited::Change,
    );
    timed(
        world.run(leadership.resign_timeout(secs(2))),
        Awaited::Release,
    );
    let campaign = world.run(election.campaign_timeout(secs(2)));
    timed(campaign.map(drop), Awaited::Grant);
    timed(
        world.run(election.shutdown_timeout(secs(2))),
        Awaited::Shutdown,
    );
    assert_eq!(world.now().saturating_since(before), secs(8));
    process.go_on();
    world.run(election.shutdown());
    assert_only_key_left(&world);
}

#[track_caller]
fn assert_late<T: std::fmt::Debug>(late: Result<T, Error>, what: Awaited, says: &str) {
    let error = late.expect_err("it takes longer");
    let text = error.to_string();
    assert!(
        text.starts_with("election \"service/db/leader\" at mock://a: "),
        "{text}"
    );
    assert!(text.contains(says), "{text}");
    let is_what = matches!(error, Error::Timeout { within, .. } if within == what);
    assert!(is_what, "{error:?}");
}

#[test]
fn the_handle_of_an_election_follows_its_leaders() {
    let world = MockConsul::new(1);
    let (election, _leadership) = leader(&world);
    let mut leaders = election.leaders();
    assert_eq!(leaders.age(), None);
    let led = world.run(leaders.next());
    assert!(matches!(led, Some(Ok(LeaderEvent::Elected(_)))), "{led:?}");
    world.advance(secs(7));
    assert!(leaders.age() >= Some(secs(7)), "{:?}", leaders.age());
    world.run(election.step_down()).expect("stepped down");
    let led = world.run(leaders.next());
    let is_leaderless = matches!(led, Some(Ok(LeaderEvent::Leaderless { .. })));
    assert!(is_leaderless, "{led:?}");
}

#[test]
fn a_thread_steps_down_and_shuts_down_beside_its_leadership() {
    let world = MockConsul::new(1);
    let election = blocking::Election::builder(KEY)
        .value("a")
        .connect(world.client("a"))
        .expect("valid settings");
    let first = election.campaign().expect("elected");
    let set = first.set_value_timeout("b", secs(1));
    set.expect("set");
    assert_eq!(found(&world).expect("a key").value, "b");
    election.step_down().expect("stepped down");
    assert!(matches!(first.lost(), Lost::SteppedDown));
    first.resign().expect("nothing is left");
    let second = election.campaign().expect("elected");
    let mut leaders = election.leaders();
    assert!(matches!(leaders.next(), Some(Ok(LeaderEvent::Elected(_)))));
    assert!(leaders.age().is_some());
    world.partition("a");
    let late = election.shutdown_timeout(secs(1));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    world.heal("a");
    election.shutdown();
    assert!(!second.is_leader());
    assert_only_key_left(&world);
}
