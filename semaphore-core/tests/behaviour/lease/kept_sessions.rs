//! Sessions that outlive a release. They are kept as long as a turn may begin with them: for two fifths of the
//! TTL since they were renewed. Nobody renews them for that.

use semaphore_core::Semaphore;
use semaphore_core::sans_io::Response;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::spy::Spy;
use crate::support::steps::{creates_session, deletes_key, destroys_session};
use crate::support::*;

/// Acquires and releases.
#[track_caller]
fn turn(world: &MockConsul, semaphore: &Semaphore) {
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
}

/// A client that has come back soon once. So it is expected to come again, and its session is kept.
fn with_a_kept_session(world: &MockConsul) -> Semaphore {
    let semaphore = semaphore(world, "a", 1);
    turn(world, &semaphore);
    turn(world, &semaphore);
    assert_eq!(session_count(world), 1, "{}", world.trace());
    semaphore
}

fn session(world: &MockConsul) -> String {
    world.consul(|consul, _| {
        let mut sessions = consul.sessions().map(|it| it.id().to_owned());
        sessions.next().expect("a session")
    })
}

#[test]
fn a_session_is_kept_for_two_fifths_of_its_ttl_after_each_turn() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    for _ in 0..3 {
        turn(&world, &semaphore);
        world.advance(millis(5_980));
        assert_eq!(session_count(&world), 1, "{}", world.trace());
        world.advance(millis(30));
        assert_eq!(session_count(&world), 0, "{}", world.trace());
    }
    let stats = world.stats();
    assert_eq!(stats.requests_of(RequestKind::SessionRenew), 0);
    world.advance(secs(60));
    assert_eq!(world.stats(), stats, "nothing is sent any more");
}

/// A permit is dropped and the next one is asked for at once: the release is on its way, so that turn gets
/// another session. With holds of seconds the two take turns.
#[test]
fn a_loop_of_holds_of_seconds_makes_two_sessions() {
    for hold in [100, 1_500, 3_000, 4_500].map(millis) {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        for _ in 0..20 {
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            world.advance(hold);
            drop(permit);
        }
        let made = world.stats().requests_of(RequestKind::SessionCreate);
        assert!(made <= 2, "{made} for {hold:?}\n{}", world.trace());
    }
}

#[test]
fn the_session_of_whoever_came_back_soon_is_kept_and_used_again() {
    for pause in [0, 500, 3_000, 5_900].map(millis) {
        let world = MockConsul::new(1);
        let semaphore = with_a_kept_session(&world);
        let kept = session(&world);
        world.advance(pause);
        let spy = Spy::on(&world);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        assert_eq!(permit.sequencers()[0].session.as_str(), kept);
        assert_eq!(spy.count(creates_session), 0, "{}", world.trace());
        world.run(permit.release()).expect("released");
        assert_eq!(spy.count(destroys_session), 0, "{}", world.trace());
        assert_nothing_left(&world);
    }
}

#[test]
fn a_hold_that_begins_with_a_kept_session_has_half_of_its_ttl_left() {
    for pause in [0, 3_000, 5_980].map(millis) {
        let world = MockConsul::new(1);
        let semaphore = with_a_kept_session(&world);
        world.advance(pause);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.partition("a");
        world.advance(millis(7_480));
        assert!(permit.is_held(), "{pause:?}\n{}", world.trace());
    }
}

#[test]
fn a_shutdown_destroys_kept_sessions_at_once() {
    let world = MockConsul::new(1);
    let semaphore = with_a_kept_session(&world);
    let before = world.now();
    world.run(semaphore.shutdown());
    let took = world.now().saturating_since(before);
    assert!(took <= millis(5), "{took:?}");
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn nothing_is_kept_after_a_shutdown() {
    let world = MockConsul::new(1);
    let semaphore = with_a_kept_session(&world);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    semaphore.close();
    world.run(permit.release()).expect("released");
    world.advance(millis(5));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn a_turn_with_a_kept_session_costs_two_requests() {
    let world = MockConsul::new(1);
    let semaphore = with_a_kept_session(&world);
    let spy = Spy::on(&world);
    for turns in 1..=10 {
        turn(&world, &semaphore);
        let requests = spy.requests();
        let expected = 2 * turns;
        assert!(requests.len() <= expected, "{turns}\n{}", world.trace());
        assert!(requests.len() >= 2 * turns);
    }
    assert_nothing_left(&world);
}

#[test]
fn a_kept_session_that_was_destroyed_meanwhile_costs_no_error() {
    let world = MockConsul::new(1);
    let semaphore = with_a_kept_session(&world);
    let gone = session(&world);
    world.consul(|consul, now| consul.destroy_session(now, &gone));
    let spy = Spy::on(&world);
    let before = world.now();
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let took = world.now().saturating_since(before);
    assert!(took <= secs(1), "{took:?}");
    assert_eq!(spy.count(creates_session), 1, "{}", world.trace());
    assert_ne!(permit.sequencers()[0].session.as_str(), gone);
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_session_that_is_kept_again_and_again_is_renewed_as_any_other() {
    let world = MockConsul::new(1);
    let semaphore = with_a_kept_session(&world);
    for _ in 0..100 {
        world.advance(millis(300));
        turn(&world, &semaphore);
    }
    assert_eq!(session_count(&world), 1);
    assert_nothing_left(&world);
    let renewals = world.stats().requests_of(RequestKind::SessionRenew);
    // A grant is followed by a renewal, unless the last one was sent within a fifteenth of the TTL.
    let most = 30;
    assert!(renewals <= most, "{renewals} in 30 s");
}

#[test]
fn the_session_of_whoever_could_not_leave_in_time_is_not_kept() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    turn(&world, &semaphore);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let left = permit.sequencers()[0].session.to_string();
    // For twice the TTL, nothing can be written and no session ends.
    world.lose_leader();
    drop(permit);
    world.advance(millis(1));
    let next = semaphore.clone();
    let mut waiting = world.start(async move { next.acquire().await });
    world.advance(secs(31));
    world.elect_leader();
    let end = world.now() + secs(10);
    let mut granted = None;
    while granted.is_none() {
        assert!(world.step(end), "no slot\n{}", world.trace());
        let is_tied = contender_keys(&world)
            .iter()
            .any(|key| key.ends_with(&left));
        let is_left_behind = !is_tied && holders(&world).contains(&left);
        assert!(!is_left_behind, "{}", world.trace());
        granted = waiting.try_take();
    }
    let permit = granted.expect("an end").expect("a free slot");
    assert_ne!(permit.sequencers()[0].session.as_str(), left);
    world.run(permit.release()).expect("released");
    world.advance(secs(60));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

/// A proxy may repeat a request after its answer. The next turn's key has the same name.
#[test]
fn a_deletion_that_is_repeated_late_takes_no_later_turns_key() {
    let world = MockConsul::new(1);
    let semaphore = with_a_kept_session(&world);
    let again = Rule::new(Fault::Duplicate(secs(3)));
    world.inject(again.matching(deletes_key));
    turn(&world, &semaphore);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(10));
    assert!(permit.is_held(), "{}", world.trace());
    world.run(permit.release()).expect("released");
    world.advance(secs(2));
    assert_nothing_left(&world);
}

/// The simulator found it (seed 7009544): timers begin again with a new leader, so the session lived on.
#[test]
fn a_destruction_that_begins_late_is_repeated_although_it_is_refused_at_first() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    turn(&world, &semaphore);
    world.partition("a");
    world.advance(secs(20));
    world.lose_leader();
    world.elect_leader();
    world.advance(secs(13));
    let refused = Rule::new(Fault::Answer(Response::new(403, "ACL not found")));
    world.inject(refused.kind(RequestKind::SessionDestroy));
    world.heal("a");
    world.advance(secs(8));
    assert_eq!(world.pending_rules(), 0);
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}
