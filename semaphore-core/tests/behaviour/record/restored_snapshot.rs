//! Indexes that go backwards: a restored snapshot, data moved to another cluster, a stale server.

use futures_util::future::join;
use semaphore_core::adapter::{Method, Request, Transport as _};
use semaphore_core::{Error, Lost};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::spy::Spy;
use crate::support::*;

#[test]
fn a_holder_that_a_restored_snapshot_does_not_know_learns_of_it_with_one_answer() {
    let world = MockConsul::new(6);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        b.acquire()
            .await
            .expect("a slot")
            .release()
            .await
            .expect("released");
        let snapshot = world.consul(|consul, _| consul.snapshot());
        let permit = a.acquire().await.expect("a slot");
        world.sleep(secs(2)).await;
        let restored = world.now();
        world.consul(|consul, now| consul.restore(now, &snapshot));
        let lost = permit.lost().await;
        let noticed = world.now().saturating_since(restored);
        assert!(noticed < millis(20), "{noticed:?}\n{}", world.trace());
        assert!(
            matches!(
                lost,
                Lost::SessionGone { .. } | Lost::RemovedFromHolders { .. }
            ),
            "{lost:?}"
        );
        assert!(!permit.is_held());
    });
    assert_recovered(&world, 1);
}

#[test]
fn a_holder_that_a_restored_snapshot_knows_keeps_its_slot() {
    let world = MockConsul::new(6);
    let (a, b) = (semaphore(&world, "a", 2), semaphore(&world, "b", 2));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        world.sleep(secs(1)).await;
        let snapshot = world.consul(|consul, _| consul.snapshot());
        let other = b.acquire().await.expect("a slot");
        world.sleep(secs(1)).await;
        world.consul(|consul, now| consul.restore(now, &snapshot));
        other.lost().await;
        world.sleep(secs(60)).await;
        assert!(permit.is_held());
        let again = b.acquire_timeout(secs(1)).await.expect("a slot");
        assert_eq!(holders(&world).len(), 2);
        permit.release().await.expect("released");
        again.release().await.expect("released");
    });
    assert_recovered(&world, 2);
}

#[test]
fn a_waiter_whose_session_a_restored_snapshot_does_not_know_enters_again() {
    let world = MockConsul::new(6);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        let permit = a.acquire().await.expect("a slot");
        let snapshot = world.consul(|consul, _| consul.snapshot());
        let waiting = world.start(async move { b.acquire().await });
        world.sleep(secs(1)).await;
        world.consul(|consul, now| consul.restore(now, &snapshot));
        world.sleep(secs(1)).await;
        assert!(permit.is_held());
        assert_eq!(contender_keys(&world).len(), 2, "{}", world.trace());
        permit.release().await.expect("released");
        let start = world.now();
        waiting
            .await
            .expect("a slot")
            .release()
            .await
            .expect("released");
        assert!(world.now().saturating_since(start) < secs(1));
    });
    assert_recovered(&world, 1);
}

#[test]
fn indexes_that_are_counted_anew_cost_nobody_a_slot_and_the_watch_starts_again() {
    let world = MockConsul::new(6);
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    world.run(async {
        for _ in 0..10 {
            a.acquire()
                .await
                .expect("a slot")
                .release()
                .await
                .expect("released");
        }
        let permit = a.acquire().await.expect("a slot");
        world.sleep(secs(1)).await;
        world.consul(transport_mock::consul::Consul::reset_index);
        world.sleep(secs(20)).await;
        assert!(permit.is_held());
        // Its poll has ended after its wait at the latest, so it sees changes at once again.
        let waiting = world.start(async move { b.acquire().await });
        world.sleep(secs(20)).await;
        let start = world.now();
        permit.release().await.expect("released");
        let next = waiting.await.expect("a slot");
        let delay = world.now().saturating_since(start);
        assert!(delay < millis(100), "{delay:?}");
        next.release().await.expect("released");
    });
    assert_recovered(&world, 1);
}

#[test]
fn an_index_that_is_wrong_once_changes_nothing() {
    let two_turns = |world: &MockConsul, case: &str| {
        let (a, b) = (semaphore(world, "a", 1), semaphore(world, "b", 1));
        world.run(async {
            let permit = a.acquire().await.expect("a slot");
            let waiting = world.start(async move { b.acquire().await });
            world.sleep(secs(40)).await;
            assert!(permit.is_held(), "{}", world.trace());
            permit.release().await.expect("released");
            let start = world.now();
            let next = waiting.await.expect("a slot");
            let delay = world.now().saturating_since(start);
            assert!(delay < secs(17), "{delay:?} {case}");
            next.release().await.expect("released");
        });
    };
    for kind in [RequestKind::KvRead, RequestKind::KvWatch] {
        let is = move |request: &Request| RequestKind::of(request) == kind;
        let sent = Spy::undisturbed(6, is, |world| two_turns(world, "undisturbed"));
        assert!(sent > 0, "{kind}");
        for index in [0, 1, u64::MAX] {
            for skip in 0..sent.min(6) {
                let world = MockConsul::new(6);
                world.inject(Rule::new(Fault::Index(index)).kind(kind).skip(skip));
                two_turns(&world, &format!("{index} {kind} {skip}"));
                assert_recovered(&world, 1);
            }
        }
    }
}

/// The simulator found this. The record names the session that was kept for the next turn, and two
/// sessions that this host has destroyed.
#[test]
fn a_record_that_names_ones_own_sessions_of_an_earlier_turn_is_no_bar_to_the_next() {
    let world = MockConsul::new(6);
    let a = semaphore(&world, "a", 3);
    world.run(async {
        let before = a.acquire_many(3).await.expect("slots");
        world.sleep(millis(100)).await;
        before.release().await.expect("released");
        let permits = a.acquire_many(3).await.expect("slots");
        world.sleep(secs(1)).await;
        let snapshot = world.consul(|consul, _| consul.snapshot());
        permits.release().await.expect("released");
        world.sleep(millis(500)).await;
        world.consul(|consul, now| consul.restore(now, &snapshot));
        let next = a.acquire_timeout(secs(60)).await.expect("a slot");
        next.release().await.expect("released");
    });
    assert_recovered(&world, 3);
}

/// The simulator found this (seed 13096713): after a restored snapshot indexes are counted on from small ones, and
/// what somebody writes gets the index that the record had before.
#[test]
fn what_has_the_index_that_the_record_had_before_a_restored_snapshot_is_not_taken_for_it() {
    let world = MockConsul::new(6);
    let a = semaphore(&world, "a", 1);
    let stored = || {
        world.consul(|consul, _| {
            let entry = consul.entry("service/db/.lock").expect("an entry");
            (entry.modify_index(), entry.value().to_vec())
        })
    };
    let annotate = || {
        let note = Request::new(Method::Put, "/v1/kv/service/db/.lock");
        let note = note.with_body(format!("maintenance at {}", world.now()));
        let answer = world.run(world.client("operator").send(note));
        assert_eq!(answer.expect("an answer").body(), b"true");
        stored()
    };
    let before = world.run(a.acquire()).expect("a slot");
    world.run(before.release()).expect("released");
    let snapshot = world.consul(|consul, _| consul.snapshot());
    world.consul(|consul, _| consul.advance_index(1_000));
    let permit = world.run(a.acquire()).expect("a slot");
    let (known, _) = stored();
    world.consul(|consul, now| {
        consul.restore(now, &snapshot);
        consul.reset_index(now);
    });
    let (index, _) = annotate();
    world.consul(|consul, _| consul.advance_index(known - index - 1));
    let note = annotate();
    assert_eq!(note.0, known);
    world.run(permit.lost());
    drop(permit);
    world.advance(secs(60));
    let refused = world.run(a.acquire());
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
    assert_eq!(stored(), note);
}

/// The simulator found this (seed 14088273): a snapshot has brought the key and the slot back of a session that was
/// unused, and a list shows them before who is lent the session has entered.
#[test]
fn a_session_that_is_lent_once_more_has_the_slot_that_a_restored_snapshot_gives_it() {
    let world = MockConsul::new(6);
    let a = semaphore(&world, "a", 3);
    world.run(async {
        let first = a.acquire().await.expect("a slot");
        let (second, third) = (a.acquire().await, a.acquire().await);
        world.sleep(millis(100)).await;
        let snapshot = world.consul(|consul, _| consul.snapshot());
        second.expect("a slot").release().await.expect("released");
        third.expect("a slot").release().await.expect("released");
        world.consul(|consul, now| consul.restore(now, &snapshot));
        // The next proof of the first one's key tells of the record.
        world.sleep(millis(950)).await;
        world.inject(
            Rule::new(Fault::LoseRequest)
                .kind(RequestKind::Txn)
                .times(1),
        );
        let entering = a.acquire_timeout(secs(60));
        let waiting = async {
            world.sleep(millis(1)).await;
            a.acquire_timeout(secs(60)).await
        };
        let (second, third) = join(entering, waiting).await;
        assert!(first.is_held());
        for permit in [first, second.expect("a slot"), third.expect("a slot")] {
            permit.release().await.expect("released");
        }
    });
    assert_recovered(&world, 3);
}
