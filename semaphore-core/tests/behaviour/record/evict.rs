//! A slot is taken away, and its holder learns why.

use semaphore_core::manage::Eviction;
use semaphore_core::sans_io::Method;
use semaphore_core::{Error, InvalidInput, Lost, Permit, Semaphore, SessionId};
use transport_mock::MockConsul;

use crate::support::stranger::{Stranger, operate};
use crate::support::*;

fn evict(world: &MockConsul, session: &SessionId) -> Eviction {
    let operator = semaphore(world, "operator", 1);
    let ended = world.run(operator.evict(session, "the disk is full"));
    ended.expect("an end")
}

fn session_of(permit: &Permit) -> SessionId {
    permit.sequencers()[0].session.clone()
}

/// A permit of the host `a`, and a handle there.
fn held(world: &MockConsul) -> (Semaphore, Permit) {
    let semaphore = semaphore(world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    (semaphore, permit)
}

#[test]
fn the_holder_is_told_the_reason_and_others_have_its_slot_when_it_is_given_back() {
    let world = MockConsul::new(1);
    let (_semaphore, permit) = held(&world);
    let session = session_of(&permit);
    let other = semaphore(&world, "b", 1);
    let waiting = world.start(async move { other.acquire().await });
    let evicting = world.start({
        let operator = semaphore(&world, "operator", 1);
        let session = session.clone();
        async move { operator.evict(&session, "the disk is full").await }
    });
    let lost = world.run(permit.lost());
    let text = lost.to_string();
    let says = format!("lost: the session {session} was evicted: the disk is full");
    assert!(text.ends_with(&says), "{text}");
    assert_eq!(lost.subject().expect("known").semaphore(), Some(PREFIX));
    assert!(!permit.is_held());
    // The holder may need time to stop its work.
    world.advance(secs(3));
    assert_eq!(holders(&world), [session.as_str()]);
    let released = world.run(permit.release());
    assert!(
        matches!(released, Err(Error::Lost(Lost::Evicted { .. }))),
        "{released:?}"
    );
    let before = world.now();
    let next = world.run(waiting).expect("a slot");
    assert!(
        world.now().saturating_since(before) < secs(1),
        "no lock delay"
    );
    assert_eq!(world.run(evicting).expect("an end"), Eviction::Left);
    world.run(next.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn work_under_a_permit_is_dropped_and_its_slot_is_free_at_once() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let working = world.start({
        let world = world.clone();
        async move {
            let never = |_permit| async move { world.sleep(secs(3_600)).await };
            semaphore.with_permit(never).await
        }
    });
    world.advance(secs(1));
    let session = SessionId::new(holders(&world).remove(0)).expect("a session");
    let before = world.now();
    assert_eq!(evict(&world, &session), Eviction::Left);
    assert!(world.now().saturating_since(before) < secs(1));
    let worked = world.run(working);
    assert!(
        matches!(worked, Err(Error::Lost(Lost::Evicted { .. }))),
        "{worked:?}"
    );
    assert_nothing_left(&world);
}

#[test]
fn whoever_does_not_go_or_can_not_be_told_loses_its_session_after_ten_seconds() {
    for is_cut_off in [false, true] {
        let world = MockConsul::new(1);
        let (_semaphore, permit) = held(&world);
        if is_cut_off {
            world.partition("a");
        }
        let before = world.now();
        assert_eq!(evict(&world, &session_of(&permit)), Eviction::Ended);
        let took = world.now().saturating_since(before);
        assert!(took >= secs(10) && took < secs(13), "{took:?}");
        assert_eq!(session_count(&world), 0);
        let lost = world.run(permit.lost());
        let is_told = matches!(lost, Lost::Evicted { .. });
        assert_eq!(is_told, !is_cut_off, "{lost:?}");
        world.heal("a");
        drop(permit);
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn whoever_only_waits_queues_anew() {
    let world = MockConsul::new(1);
    let (_semaphore, permit) = held(&world);
    let other = semaphore(&world, "b", 1);
    let waiting = world.start(async move { other.acquire().await });
    world.advance(secs(1));
    let is_waiters = |key: &String| !key.ends_with(session_of(&permit).as_str());
    let key = contender_keys(&world).into_iter().find(is_waiters);
    let key = key.expect("a waiter");
    let (_, session) = key.rsplit_once('/').expect("a session");
    let session = SessionId::new(session).expect("a session");
    // It may see that it is asked to leave before its session is ended.
    let ends = evict(&world, &session);
    let is_out = matches!(ends, Eviction::Ended | Eviction::Left);
    assert!(is_out, "{ends:?}");
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("a slot");
    assert_ne!(session_of(&permit), session);
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_session_that_is_not_there_is_left_alone() {
    let world = MockConsul::new(1);
    let (_semaphore, permit) = held(&world);
    let stranger = Stranger::session(&world);
    assert_eq!(evict(&world, &stranger.session), Eviction::NotHere);
    assert!(stranger.is_alive(&world));
    assert!(permit.is_held());
    drop(permit);
}

#[test]
fn a_reason_that_can_not_be_shown_is_refused_before_anything_is_sent() {
    let world = MockConsul::new(1);
    let (_semaphore, permit) = held(&world);
    let operator = semaphore(&world, "operator", 1);
    for reason in ["", "a\nb"] {
        let refused = world.run(operator.evict(&session_of(&permit), reason));
        let error = refused.expect_err("refused");
        let is_named = matches!(
            error,
            Error::InvalidInput {
                input: InvalidInput::Name { what: "reason", .. },
                ..
            }
        );
        assert!(is_named, "{error:?}");
    }
    assert_eq!(world.stats_of("operator").total_requests(), 0);
    assert!(permit.is_held());
}

#[test]
fn a_reason_that_somebody_else_has_written_is_one_line() {
    let world = MockConsul::new(1);
    let (_semaphore, permit) = held(&world);
    let session = session_of(&permit);
    let flags = 0xe0f6_9a2b_aa41_4de0_u64 ^ 3;
    let key = format!("/v1/kv/{PREFIX}/{session}?flags={flags}");
    operate(
        &world,
        semaphore_core::sans_io::Method::Put,
        &key,
        "a\u{7}\r\nforged",
    );
    let lost = world.run(permit.lost());
    let text = lost.to_string();
    assert!(matches!(lost, Lost::Evicted { .. }), "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[test]
fn the_slot_does_not_pass_to_another_caller_of_the_same_session_for_long() {
    let world = MockConsul::new(1);
    let (semaphore, permit) = held(&world);
    let session = session_of(&permit);
    let next = world.start(async move { semaphore.acquire().await });
    world.advance(secs(1));
    let evicting = world.start({
        let session = session.clone();
        let operator = crate::support::semaphore(&world, "operator", 1);
        async move { operator.evict(&session, "the disk is full").await }
    });
    world.run(permit.lost());
    drop(permit);
    let next = world.run(next).expect("a slot");
    world.run(evicting).expect("an end");
    world.advance(secs(60));
    assert!(session_of(&next) != session || !next.is_held());
    drop(next);
    world.advance(secs(60));
    assert_nothing_left(&world);
}

/// The session ends early, with `keep_lost` and without.
#[test]
fn a_slot_that_is_lost_early_stays_taken_until_it_is_given_back_if_that_is_asked_for() {
    for keeps in [true, false] {
        let world = MockConsul::new(1);
        let told = if keeps {
            builder(1).keep_lost()
        } else {
            builder(1)
        };
        let semaphore = connect(told, &world.client("a"));
        let permit = world.run(semaphore.acquire()).expect("a slot");
        let session = session_of(&permit);
        world.expire_session(session.as_str());
        let lost = world.run(permit.lost());
        assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
        assert!(!permit.is_held());
        let before = world.stats().total_requests();
        world.advance(secs(5));
        assert_eq!(!holders(&world).is_empty(), keeps);
        let requests = world.stats().total_requests() - before;
        assert!(requests < 20, "{requests} requests");
        let released = world.run(permit.release());
        assert!(
            matches!(released, Err(Error::Lost(Lost::SessionGone { .. }))),
            "{released:?}"
        );
        world.run(semaphore.shutdown());
        assert_nothing_left(&world);
    }
}

#[test]
fn a_slot_that_is_kept_and_never_given_back_is_free_when_the_lock_delay_is_over() {
    let world = MockConsul::new(1);
    let semaphore = connect(builder(1).keep_lost(), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let other = crate::support::semaphore(&world, "b", 1);
    let waiting = world.start(async move { other.acquire().await });
    world.advance(secs(1));
    let before = world.now();
    world.expire_session(session_of(&permit).as_str());
    let next = world.run(waiting).expect("a slot");
    let waited = world.now().saturating_since(before);
    let most = secs(15) + DEAD_SEEN_AFTER;
    assert!(waited >= secs(15) && waited < most, "{waited:?}");
    world.run(next.release()).expect("released");
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

/// One of several sessions ends early, and somebody else takes its slot, as Go's clients do at once. The
/// caller still works with the others.
#[test]
fn slots_that_are_kept_stay_taken_when_another_of_their_permit_is_taken_by_somebody_else() {
    let world = MockConsul::new(1);
    // A crowd watches the record alone.
    let semaphore = connect(builder(2).keep_lost(), &world.client("a"));
    let permit = world.run(semaphore.acquire_many(2)).expect("two slots");
    let sessions = permit.sequencers();
    let (dead, kept) = (&sessions[0].session, &sessions[1].session);
    world.expire_session(dead.as_str());
    let lost = world.run(permit.lost());
    assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    let stranger = Stranger::enters(&world);
    let key = format!("{PREFIX}/.lock");
    let (value, flags) = world.consul(|consul, _| {
        let entry = consul.entry(&key).expect("a record");
        (entry.value().to_vec(), entry.flags())
    });
    let value = String::from_utf8(value).expect("text");
    let value = value.replace(dead.as_str(), stranger.session.as_str());
    let target = format!("/v1/kv/{key}?flags={flags}");
    operate(&world, Method::Put, &target, &value);
    world.advance(secs(5));
    let now = holders(&world);
    assert!(now.iter().any(|it| it == kept.as_str()), "{now:?}");
    let _lost = world.run(permit.release());
    world.advance(secs(2));
    assert_eq!(holders(&world), [stranger.session.as_str()]);
}
