//! Giving back once and in order, whatever the network does.

use semaphore_core::adapter::Response;
use semaphore_core::{Error, RequestError};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::steps::{self, Is};
use crate::support::*;

/// Each request of a release, in order. A transaction deletes the key with its write.
fn way_out() -> impl Iterator<Item = (&'static str, Is)> {
    [
        ("write", steps::writes_record as Is),
        ("delete", steps::deletes_key),
        ("destroy", steps::destroys_session),
    ]
    .into_iter()
    .filter(|(what, _)| *what != "delete")
}

#[test]
fn belief_ends_at_once() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let waiter = semaphore.clone();
    let mut waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    world.partition("a");
    let _releasing = world.start(async move { permit.release().await });
    world.advance(secs(1));
    // With transactions the slot passes to the next caller, and the first one no longer waits for
    // it.
    assert!(waiting.try_take().is_none());
    world.heal("a");
    let permit = world.run(waiting).expect("the next one's turn");
    world.run(permit.release()).expect("released");
    // The request that entered for the next caller may still be under way.
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_release_whose_answers_are_lost_is_finished_all_the_same() {
    for (what, is) in way_out() {
        for fault in [
            Fault::LoseAnswer,
            Fault::LoseRequest,
            Fault::ResetBefore,
            Fault::ResetAfter,
            Fault::Refuse,
            Fault::BadAnswer,
            Fault::no_leader(),
            Fault::too_many_requests(),
            Fault::unavailable(),
            Fault::AnswerAfter(Response::new(504, "gateway timeout")),
            Fault::AnswerAfter(Response::new(200, "<html>")),
            Fault::Duplicate(millis(30)),
            Fault::Duplicate(secs(5)),
        ] {
            let world = MockConsul::new(1);
            let semaphore = semaphore(&world, "a", 1);
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            world.inject(Rule::new(fault.clone()).matching(is));
            let released = world.run(permit.release());
            assert!(released.is_ok(), "{what} {fault}: {released:?}");
            assert_eq!(contender_keys(&world), [""; 0], "{what} {fault}");
            world.advance(KEPT + secs(4));
            assert_eq!(world.pending_rules(), 0, "{what} {fault}");
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn a_late_release_does_not_remove_a_newer_hold() {
    // The write that removes the first hold is delivered again while the next one holds.
    for after in [5, 10, 50, 500, 5_000] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        for (_, is) in way_out() {
            world.inject(Rule::new(Fault::Duplicate(millis(after))).matching(is));
        }
        world.run(permit.release()).expect("released");
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(secs(20));
        assert!(permit.is_held(), "{after} ms\n{}", world.trace());
        assert_eq!(holders(&world).len(), 1);
        world.run(permit.release()).expect("released");
        world.advance(secs(10));
        assert_eq!(world.pending_rules(), 0);
        assert_nothing_left(&world);
    }
}

#[test]
fn a_release_in_a_partition_is_finished_when_the_agent_is_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.partition("a");
    let mut releasing = world.start(async move { permit.release().await });
    world.advance(secs(8));
    assert!(releasing.try_take().is_none());
    assert_eq!(holders(&world).len(), 1);
    world.heal("a");
    world.run(releasing).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_drop_in_a_partition_is_finished_when_the_agent_is_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.partition("a");
    drop((permit, semaphore));
    world.advance(secs(10));
    assert_eq!(holders(&world).len(), 1);
    world.heal("a");
    world.advance(secs(10));
    assert_nothing_left(&world);
}

#[test]
fn a_release_that_does_not_reach_the_agent_is_told_and_goes_on_until_it_does() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.partition("a");
    let before = world.now();
    match world.run(permit.release()) {
        Err(Error::Request(RequestError::Transport(_))) => {}
        other => panic!("{other:?}"),
    }
    // At the end of the belief, or after two TTLs.
    let told = world.now().saturating_since(before);
    assert!(told <= secs(15) / 10 * 9, "{told:?}");
    world.advance(secs(25));
    assert_eq!(contender_keys(&world), [""; 0]);
    assert_eq!(session_count(&world), 0);
    // The pauses grow, to a fifth of the TTL or to a minute.
    world.advance(secs(60 * 60));
    let sent = world.stats().total_requests();
    world.advance(secs(60 * 10));
    let sent = world.stats().total_requests() - sent;
    let most = 150;
    assert!((5..=most).contains(&sent), "{sent} in ten minutes");
    world.heal("a");
    world.advance(secs(130));
    assert_eq!(holders(&world).len(), 0, "{}", world.trace());
    assert_nothing_left(&world);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_release_without_a_leader_is_left_to_the_ttl() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.lose_leader();
    match world.run(permit.release()) {
        Err(Error::Request(RequestError::Unavailable { status: 500, .. })) => {}
        other => panic!("{other:?}"),
    }
    world.elect_leader();
    world.advance(secs(40));
    assert_eq!(contender_keys(&world), [""; 0]);
    assert_eq!(session_count(&world), 0);
}

#[test]
fn a_release_that_is_denied_says_so_at_once() {
    for (what, is) in way_out() {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let denied = Fault::Answer(Response::new(403, "Permission denied"));
        world.inject(Rule::new(denied).matching(is).always());
        let before = world.now();
        match world.run(permit.release()) {
            Err(Error::Request(RequestError::Denied { .. })) => {}
            // The session is destroyed later, when no turn may begin with it any more.
            Ok(()) if what == "destroy" => {}
            other => panic!("{what}: {other:?}"),
        }
        assert!(world.now().saturating_since(before) < secs(1), "{what}");
        // The refusal may be temporary. If it lasts as long as a lease, whatever can be cleaned up
        // is: the key ends with its session, or is deleted.
        world.advance(secs(30));
        if what != "destroy" {
            assert_eq!(session_count(&world), 0, "{what}");
        }
        assert_eq!(contender_keys(&world), [""; 0], "{what}");
        world.advance(secs(60));
        assert_eq!(session_count(&world), 0, "{what}");
    }
}

#[test]
fn a_record_that_was_removed_before_the_release_is_not_written_again() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    crate::support::stranger::operate(
        &world,
        semaphore_core::adapter::Method::Delete,
        &format!("/v1/kv/{PREFIX}?recurse"),
        "",
    );
    // It ends, whether the loss or the release came first.
    let _ = world.run(permit.release());
    world.advance(secs(1));
    assert!(record(&world).is_none());
    assert_nothing_left(&world);
}

#[test]
fn dropping_the_future_of_a_release_leaves_it_to_the_background() {
    for step in 0..20 {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let releasing = world.start(async move { permit.release().await });
        world.advance(std::time::Duration::from_micros(500 * step));
        releasing.abort();
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}
