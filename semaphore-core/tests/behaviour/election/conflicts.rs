//! Foreign keys are left alone: a semaphore's key by an election, and the other way round. Keys of
//! Go's lock are shared.

use semaphore_core::sans_io::api::{LOCK_FLAGS, SEMAPHORE_FLAGS};
use semaphore_core::sans_io::{Method, Request};
use semaphore_core::{Conflict, Error, Lost};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::election::unknown::ACQUISITION;
use crate::support::election::*;
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

/// Stores this value in the key, and starts a campaign for it.
fn campaign_for(flags: u64, value: &str) -> (MockConsul, Result<(), Error>) {
    let world = MockConsul::new(1);
    let target = format!("/v1/kv/{KEY}?flags={flags}");
    operate(&world, Method::Put, &target, value);
    let election = election(&world, "a");
    let outcome = world.run(election.campaign());
    let outcome = outcome.map(|leadership| {
        assert!(leadership.is_leader());
    });
    world.advance(KEPT);
    assert_eq!(session_count(&world), 0);
    (world, outcome)
}

#[test]
fn a_key_with_other_flags_is_a_conflict_and_stays_as_it_is() {
    for flags in [SEMAPHORE_FLAGS, 1, u64::MAX] {
        for value in ["", "somebody's"] {
            let (world, outcome) = campaign_for(flags, value);
            let Err(Error::NotAnElection { key, conflict, .. }) = outcome else {
                panic!("{outcome:?}");
            };
            let expected = match flags {
                SEMAPHORE_FLAGS => Conflict::Semaphore,
                flags => Conflict::ElectionFlags { flags },
            };
            assert_eq!((key.as_str(), conflict), (KEY, expected));
            let key = found(&world).expect("a key");
            assert_eq!((key.value.as_str(), key.flags), (value, flags));
        }
    }
}

#[test]
fn a_key_without_flags_is_a_conflict_if_it_stores_something() {
    let (world, outcome) = campaign_for(0, "configuration");
    let Err(Error::NotAnElection { conflict, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(conflict, Conflict::ElectionFlags { flags: 0 });
    assert_eq!(found(&world).expect("a key").value, "configuration");
    let (world, outcome) = campaign_for(0, "");
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(found(&world).expect("a key").flags, LOCK_FLAGS);
}

#[test]
fn whoever_waits_goes_on_waiting_while_the_key_is_something_elses() {
    for (flags, written) in [
        (SEMAPHORE_FLAGS, r#"{"Limit":1,"Holders":{}}"#),
        (0, "a stranger"),
        (LOCK_FLAGS, "a stranger"),
    ] {
        let world = MockConsul::new(1);
        let (_a, first) = leader(&world);
        let b = election(&world, "b");
        let mut waiting = world.start({
            let b = b.clone();
            async move { b.campaign().await }
        });
        world.advance(secs(2));
        let target = format!("/v1/kv/{KEY}?flags={flags}");
        operate(&world, Method::Put, &target, written);
        let lost = world.run(first.lost());
        assert!(matches!(lost, Lost::KeyOverwritten { .. }), "{lost}");
        drop(first);
        world.advance(secs(120));
        if flags == LOCK_FLAGS {
            // The former leader has released the overwritten key, so it belongs to an election
            // again.
            let second = waiting.try_take().expect("it leads");
            assert!(second.expect("a leadership").is_leader());
            continue;
        }
        assert!(waiting.try_take().is_none());
        assert_eq!(b.leader(), None);
        let found = found(&world).expect("a key");
        assert_eq!((found.flags, found.value.as_str()), (flags, written));

        operate(&world, Method::Delete, &format!("/v1/kv/{KEY}"), "");
        let second = world.run(waiting).expect("a leadership");
        assert!(second.is_leader());
    }
}

#[test]
fn while_the_key_is_something_elses_it_says_so_to_those_whose_time_is_over() {
    let world = MockConsul::new(1);
    let (a, first) = leader(&world);
    let target = format!("/v1/kv/{KEY}");
    operate(&world, Method::Put, &target, "a stranger");
    world.run(first.lost());
    drop(first);
    let refused = world.run(a.campaign_timeout(secs(90)));
    assert!(matches!(refused, Err(Error::NotAnElection { .. })));
    let refused = world.run(a.try_campaign());
    assert!(matches!(refused, Err(Error::NotAnElection { .. })));
    operate(&world, Method::Delete, &target, "");
    assert!(world.run(a.campaign()).expect("a leadership").is_leader());
}

#[test]
fn a_storm_of_writes_by_a_stranger_costs_no_more_than_the_ceiling() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let b = election(&world, "b");
    let waiting = world.start(async move { b.campaign().await });
    world.advance(secs(2));
    let target = format!("/v1/kv/{KEY}");
    let before = world.stats_of("b").total_requests();
    let began = world.now();
    for number in 0..4_000 {
        operate(&world, Method::Put, &target, &number.to_string());
        world.advance(millis(2));
    }
    let requests = world.stats_of("b").total_requests() - before;
    let ceiling = 50 + 100 * (world.now().saturating_since(began).as_secs() + 1);
    assert!(ceiling < 2_000, "the storm has to be faster");
    assert!(requests <= ceiling, "{requests} instead of {ceiling}");
    drop(first);
    operate(&world, Method::Delete, &target, "");
    assert!(world.run(waiting).expect("a leadership").is_leader());
}

#[test]
fn the_record_of_a_semaphore_is_no_election() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let election = elect_with(builder_for(&format!("{PREFIX}/.lock")), &world.client("b"));
    let outcome = world.run(election.campaign());
    let Err(Error::NotAnElection { conflict, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(conflict, Conflict::Semaphore);
    world.advance(secs(30));
    assert!(permit.is_held());
}

#[test]
fn the_key_of_an_election_is_no_semaphore() {
    let world = MockConsul::new(1);
    let key = format!("{PREFIX}/.lock");
    let election = elect_with(builder_for(&key).value("a"), &world.client("a"));
    let leadership = world.run(election.campaign()).expect("elected");
    let semaphore = semaphore(&world, "b", 1);
    let outcome = world.run(semaphore.acquire());
    let Err(Error::Conflict {
        key: found,
        conflict: Conflict::Flags { flags },
        ..
    }) = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!((found, flags), (key, LOCK_FLAGS));
    world.advance(secs(30));
    assert!(leadership.is_leader());
    world.run(leadership.resign()).expect("resigned");
    let outcome = world.run(semaphore.acquire());
    assert!(
        matches!(outcome, Err(Error::Conflict { .. })),
        "{outcome:?}"
    );
}

#[test]
fn whoever_locks_as_go_does_is_waited_for_and_followed() {
    let world = MockConsul::new(1);
    let go = Stranger::session(&world);
    let session = &go.session;
    let target = format!("/v1/kv/{KEY}?acquire={session}&flags={LOCK_FLAGS}");
    go.call(&world, Method::Put, &target, "go");
    let election = election(&world, "a");
    let mut waiting = world.start(async move { election.campaign().await });
    world.advance(secs(60));
    assert!(waiting.try_take().is_none());
    let target = format!("/v1/kv/{KEY}?release={session}&flags={LOCK_FLAGS}");
    go.call(&world, Method::Put, &target, "go");
    let leadership = world.run(waiting).expect("elected");
    assert_eq!(leadership.term(), 2);
    let target = format!("/v1/kv/{KEY}?acquire={session}&flags={LOCK_FLAGS}");
    let answer = go.call(&world, Method::Put, &target, "go");
    assert_eq!(answer.body().trim_ascii(), b"false");
    assert!(leadership.is_leader());
}

/// `consul lock` deletes the key after its release. That may happen between our read and our
/// attempt.
#[test]
fn a_key_that_is_deleted_under_an_attempt_is_tried_again_at_once() {
    let world = MockConsul::new(1);
    let go = Stranger::session(&world);
    let session = &go.session;
    let target = format!("/v1/kv/{KEY}?acquire={session}&flags={LOCK_FLAGS}");
    go.call(&world, Method::Put, &target, "go");
    let election = election(&world, "a");
    let waiting = world.start(async move { election.campaign().await.map(|it| (election, it)) });
    world.advance(secs(5));
    let is_attempt =
        |request: &Request| request.method() == Method::Put && !request.body().is_empty();
    let slow = Rule::new(Fault::Delay(millis(20))).host("a");
    world.inject(slow.matching(is_attempt));
    let target = format!("/v1/kv/{KEY}?release={session}&flags={LOCK_FLAGS}");
    go.call(&world, Method::Put, &target, "go");
    world.advance(millis(10));
    assert_eq!(found(&world).map(|key| key.session), Some(String::new()));
    operate(&world, Method::Delete, &format!("/v1/kv/{KEY}"), "");
    let deleted = world.now();
    let (_election, leadership) = world.run(waiting).expect("elected");
    assert_eq!(leadership.term(), 1, "of a new key");
    let took = world.now().saturating_since(deleted);
    assert!(took <= millis(100), "{took:?}");
}

#[test]
fn a_key_that_changes_under_an_attempt_is_read_where_no_poll_tells() {
    let world = MockConsul::new(1);
    world.inject(
        Rule::new(Fault::LoseAnswer)
            .kind(RequestKind::KvWatch)
            .always(),
    );
    world.inject(Rule::new(Fault::Delay(millis(20))).kind(ACQUISITION));
    let election = election(&world, "a");
    let before = world.now();
    let waiting = world.start(async move { election.campaign().await.map(|it| (election, it)) });
    world.advance(millis(10));
    operate(
        &world,
        Method::Put,
        &format!("/v1/kv/{KEY}?flags={LOCK_FLAGS}"),
        "former",
    );
    let (_election, leadership) = world.run(waiting).expect("elected");
    assert!(leadership.is_leader());
    assert_eq!(world.pending_rules(), 0);
    let took = world.now().saturating_since(before);
    assert!(took <= secs(1), "{took:?}");
}

/// Somebody writes the free key again and again. The candidate must neither loop quickly nor give
/// up.
#[test]
fn a_key_that_changes_under_every_attempt_is_tried_twice_a_second_at_most() {
    let world = MockConsul::new(1);
    let is_attempt =
        |request: &Request| request.method() == Method::Put && !request.body().is_empty();
    let slow = Rule::new(Fault::Delay(millis(150))).host("a").always();
    world.inject(slow.matching(is_attempt));
    let election = election(&world, "a");
    let target = format!("/v1/kv/{KEY}?flags={LOCK_FLAGS}");
    operate(&world, Method::Put, &target, "0");
    let mut waiting =
        world.start(async move { election.campaign().await.map(|it| (election, it)) });
    for turn in 0..100 {
        world.advance(millis(100));
        operate(&world, Method::Put, &target, &turn.to_string());
    }
    assert!(
        waiting.try_take().is_none(),
        "it changed under every attempt"
    );
    let attempts = world.stats_of("a").requests_of(RequestKind::Txn);
    assert!((10..=22).contains(&attempts), "{attempts} attempts");
    let (_election, leadership) = world.run(waiting).expect("elected");
    assert_eq!(leadership.term(), 1);
}
