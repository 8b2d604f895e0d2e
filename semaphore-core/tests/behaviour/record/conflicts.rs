//! What `<prefix>/.lock` may contain. Three dialects are read and kept. Anything else is left
//! alone, byte for byte (invariant S4).

use semaphore_core::adapter::{Method, Request, Transport as _};
use semaphore_core::{Conflict, Error, Lost};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::client::client;
use crate::support::aftermath::assert_recovered;
use crate::support::*;

const GO: u64 = 0xe0f6_9a2b_aa41_4de0;
const LOCK: &str = "service/db/.lock";

fn write(world: &MockConsul, value: &str, flags: u64) {
    let target = format!("/v1/kv/{LOCK}?flags={flags}");
    let request = Request::new(Method::Put, target).with_body(value);
    let answer = world.run(world.client("operator").send(request));
    assert_eq!(answer.expect("an answer").body(), b"true");
}

fn stored(world: &MockConsul) -> (String, u64, u64) {
    world.consul(|consul, _| {
        let entry = consul.entry(LOCK).expect("a record");
        let value = String::from_utf8_lossy(entry.value()).into_owned();
        (value, entry.flags(), entry.modify_index())
    })
}

#[test]
fn each_dialect_is_kept_with_its_flags() {
    for (empty, flags, held) in [
        (
            r#"{"Limit":2,"Holders":{}}"#,
            GO,
            r#"{"Limit":2,"Holders":{"ID":true}}"#,
        ),
        (
            r#"{"Limit":2,"Holders":{}}"#,
            0,
            r#"{"Limit":2,"Holders":{"ID":true}}"#,
        ),
        (
            r#"{"Limit":2,"Holders":[]}"#,
            0,
            r#"{"Limit":2,"Holders":["ID"]}"#,
        ),
        (
            r#"{"Limit":2,"Holders":[]}"#,
            GO,
            r#"{"Limit":2,"Holders":["ID"]}"#,
        ),
        (
            r#"{"limit":2,"holders":[]}"#,
            0,
            r#"{"limit":2,"holders":["ID"]}"#,
        ),
    ] {
        let world = MockConsul::new(2);
        write(&world, empty, flags);
        let semaphore = semaphore(&world, "a", 2);
        world.run(async {
            let permit = semaphore.acquire().await.expect("a slot");
            let id = permit.sequencers()[0].session.as_str();
            let (value, found, _) = stored(&world);
            let sorted = |text: &str| {
                let mut bytes = text.as_bytes().to_vec();
                bytes.sort_unstable();
                bytes
            };
            // The fields may be in any order.
            assert_eq!(sorted(&value), sorted(&held.replace("ID", id)), "{value}");
            assert_eq!(found, flags);
            permit.release().await.expect("released");
            assert_eq!(sorted(&stored(&world).0), sorted(empty));
        });
        assert_nothing_left(&world);
    }
}

#[test]
fn holders_may_be_left_out_or_null() {
    for value in [
        r#"{"Limit":2}"#,
        r#"{"Limit":2,"Holders":null}"#,
        r#"{"limit":2}"#,
    ] {
        let world = MockConsul::new(2);
        write(&world, value, 0);
        let semaphore = semaphore(&world, "a", 2);
        world.run(async {
            let permit = semaphore.acquire_many(2).await.expect("both slots");
            assert_eq!(holders(&world).len(), 2);
            permit.release().await.expect("released");
        });
        assert_recovered(&world, 2);
    }
}

#[test]
fn what_is_no_record_is_a_conflict_and_left_alone() {
    for (value, flags) in [
        ("", GO),
        ("garbage", GO),
        ("null", GO),
        ("[]", GO),
        ("{}", GO),
        ("42", 0),
        (r#"{"Limit":0,"Holders":{}}"#, GO),
        (r#"{"Limit":-1,"Holders":{}}"#, GO),
        (r#"{"Limit":1e99,"Holders":{}}"#, GO),
        (r#"{"Limit":"2","Holders":{}}"#, GO),
        (r#"{"Limit":1,"Holders":7}"#, GO),
        (r#"{"Limit":1,"Holders":[7]}"#, 0),
        (r#"{"Limit":1,"holders":[]}"#, 0),
        (r#"{"Limit":1,"Holders":{"#, GO),
        ("\u{feff}{\"Limit\":1}", 0),
        (r#"{"Limit":1,"Holders":{}}"#, 3_304_740_253_564_472_344),
        (r#"{"Limit":1,"Holders":{}}"#, 1),
    ] {
        let world = MockConsul::new(2);
        write(&world, value, flags);
        let before = stored(&world);
        let semaphore = semaphore(&world, "a", 1);
        world.run(async {
            for _ in 0..2 {
                let error = semaphore.acquire().await.expect_err(value);
                let Error::Conflict { key, conflict, .. } = error else {
                    panic!("{error:?}");
                };
                assert_eq!(key, LOCK);
                let is_foreign = flags != GO && flags != 0;
                assert_eq!(matches!(conflict, Conflict::Flags { .. }), is_foreign);
            }
            let error = semaphore.try_acquire().await.expect_err(value);
            assert!(matches!(error, Error::Conflict { .. }));
        });
        world.advance(secs(40));
        assert_eq!(stored(&world), before);
        assert_eq!(contender_keys(&world), [""; 0]);
        assert_eq!(session_count(&world), 0);
    }
}

#[test]
fn a_record_that_is_replaced_by_something_else_ends_the_hold_and_is_left_alone() {
    for value in ["garbage", r#"{"Limit":1,"Holders":{}}"#] {
        let world = MockConsul::new(2);
        let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
        let (permit, waiter) = world.run(async {
            let permit = a.acquire().await.expect("a slot");
            let waiting = b.clone();
            let waiter = world.start(async move { waiting.acquire_timeout(secs(20)).await });
            world.sleep(secs(1)).await;
            (permit, waiter)
        });
        write(&world, value, GO);
        let before = stored(&world);
        world.run(async {
            let lost = permit.lost().await;
            assert!(matches!(lost, Lost::RemovedFromHolders { .. }), "{lost:?}");
            let outcome = waiter.await;
            if value == "garbage" {
                let error = outcome.expect_err("a conflict");
                assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
            } else {
                outcome.expect("a slot").release().await.expect("released");
            }
            let error = permit.release().await.expect_err("it was lost");
            assert!(matches!(
                error,
                Error::Lost(Lost::RemovedFromHolders { .. })
            ));
            a.shutdown().await;
            b.shutdown().await;
        });
        if value == "garbage" {
            assert_eq!(stored(&world), before);
        }
        assert_eq!(contender_keys(&world), [""; 0]);
        assert_eq!(session_count(&world), 0);
    }
}

#[test]
fn another_limit_is_a_conflict_that_names_both() {
    let world = MockConsul::new(2);
    let (a, b) = (semaphore(&world, "a", 2), semaphore(&world, "b", 3));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let error = b.acquire().await.expect_err("another limit");
        let Error::LimitConflict { ours, theirs, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((ours, theirs), (3, 2));
        assert!(permit.is_held());
        permit.release().await.expect("released");
    });
    assert_recovered(&world, 2);
}

#[test]
fn another_limit_is_adopted_when_asked_to() {
    let world = MockConsul::new(2);
    let a = semaphore(&world, "a", 2);
    let b = connect(builder(3).adopt_limit(), &world.client("b"));
    world.run(async {
        let first = a.acquire().await.expect("a slot");
        let second = b.acquire().await.expect("a slot");
        assert!(b.try_acquire().await.expect("an answer").is_err());
        let error = b.acquire_many(3).await.expect_err("more than there are");
        assert!(matches!(error, Error::InvalidInput { .. }), "{error:?}");
        first.release().await.expect("released");
        second.release().await.expect("released");
    });
    assert_recovered(&world, 2);
}

#[test]
fn more_holders_than_slots_are_full_and_not_free() {
    let world = MockConsul::new(2);
    let wide = semaphore(&world, "wide", 3);
    world.run(async {
        let mut permits = Vec::new();
        for _ in 0..3 {
            permits.push(wide.acquire().await.expect("a slot"));
        }
        wide.resize(1).await.expect("resized");
        let narrow = semaphore(&world, "narrow", 1);
        for left in (1..=3).rev() {
            assert_eq!(holders(&world).len(), left);
            let outcome = narrow.try_acquire().await.expect("an answer");
            assert!(outcome.is_err(), "{left} hold the one slot");
            assert!(permits.iter().all(semaphore_core::Permit::is_held));
            let permit = permits.pop().expect("a permit");
            permit.release().await.expect("released");
        }
        let permit = narrow.acquire().await.expect("a slot");
        permit.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

#[test]
fn a_holder_that_is_listed_twice_takes_two_slots() {
    let world = MockConsul::new(2);
    write(&world, r#"{"Limit":3,"Holders":[]}"#, 0);
    let (a, b) = (semaphore(&world, "a", 3), semaphore(&world, "b", 3));
    let permit = world.run(a.acquire()).expect("a slot");
    let id = permit.sequencers()[0].session.to_string();
    write(
        &world,
        &format!(r#"{{"Limit":3,"Holders":["{id}","{id}"]}}"#),
        0,
    );
    world.run(async {
        assert!(permit.is_held());
        let other = b.acquire().await.expect("a slot");
        assert!(b.try_acquire().await.expect("an answer").is_err());
        permit.release().await.expect("released");
        assert_eq!(holders(&world).len(), 1);
        other.release().await.expect("released");
    });
    assert_recovered(&world, 3);
}

/// Its first write is delayed, and somebody else's creates the record meanwhile. The write is then
/// refused, so it has left no key behind, and no read is needed to find that out.
#[test]
fn a_conflict_is_not_told_again_when_it_is_over_although_a_write_was_refused_late() {
    let world = MockConsul::new(1);
    let ours = client(&world, "a").semaphore(PREFIX, 3).expect("a prefix");
    let enters = |request: &_| {
        matches!(
            RequestKind::of(request),
            RequestKind::Txn | RequestKind::KvAcquire
        )
    };
    world.inject(Rule::new(Fault::Delay(secs(2))).host("a").matching(enters));
    let waits = {
        let ours = ours.clone();
        world.start(async move { ours.acquire().await.map(drop) })
    };
    world.advance(millis(50));
    let other = semaphore(&world, "b", 1);
    let permit = world.run(other.acquire()).expect("a free slot");
    let error = world.run(waits).expect_err("another limit");
    assert!(matches!(error, Error::LimitConflict { .. }), "{error:?}");
    let error = world.run(ours.try_acquire()).expect_err("another limit");
    assert!(matches!(error, Error::LimitConflict { .. }), "{error:?}");
    world.run(permit.release()).expect("released");
    world.advance(secs(5));
    assert_nothing_left(&world);
    write(&world, r#"{"Limit":3,"Holders":[]}"#, 0);
    let permit = world.run(ours.acquire()).expect("no conflict any more");
    world.run(permit.release()).expect("released");
}
