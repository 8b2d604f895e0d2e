//! Giving up: by a timeout, or by dropping the future at any point. Nothing stays behind.

use std::error::Error as _;

use semaphore_core::{Error, Permit, RequestError, Semaphore};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::spy::Spy;
use crate::support::steps::{
    creates_session, deletes_key, destroys_session, enters, writes_record,
};
use crate::support::*;

#[test]
fn a_timeout_tells_how_long_it_waited() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let before = world.now();
    match world.run(hosts[1].acquire_timeout(secs(7))) {
        Err(Error::Timeout {
            waited,
            last_failure: None,
            ..
        }) => assert_eq!(waited, secs(7)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.now().saturating_since(before), secs(7));
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_timeout_has_the_last_failure_as_its_source() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.lose_leader();
    let error = world
        .run(semaphore.acquire_timeout(secs(7)))
        .expect_err("no leader");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let source = error.source().expect("a source");
    match source.downcast_ref::<RequestError>() {
        Some(RequestError::Unavailable {
            status: 500, text, ..
        }) => {
            assert_eq!(text, "No cluster leader");
        }
        other => panic!("{other:?}"),
    }
    world.elect_leader();
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_timeout_in_a_partition_has_the_silence_as_its_source() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.partition("a");
    let error = world
        .run(semaphore.acquire_timeout(secs(7)))
        .expect_err("no answer");
    let source = error.source().expect("a source").to_string();
    assert!(
        source.contains("got no answer: the agent did not answer in time"),
        "{source}"
    );
    assert_eq!(world.now().since_origin(), secs(7));
    assert_nothing_left(&world);
}

#[test]
fn a_failure_that_was_overcome_is_not_the_timeouts_source() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    world.inject(Rule::new(Fault::no_leader()).host("b"));
    let error = world
        .run(hosts[1].acquire_timeout(secs(7)))
        .expect_err("taken");
    assert!(error.source().is_none(), "{error:?}");
    assert_eq!(world.pending_rules(), 0);
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn no_time_at_all_is_a_timeout() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let result = world.run(semaphore.acquire_timeout(secs(0)));
    assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn the_longest_timeout_is_no_timeout() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world
        .run(semaphore.acquire_timeout(std::time::Duration::MAX))
        .expect("a free slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_timeout_leaves_the_place_to_the_next_task() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let (first, second) = (semaphore.clone(), semaphore.clone());
    let first = world.start(async move { first.acquire_timeout(secs(3)).await });
    let second = world.start(async move { second.acquire().await });
    let result = world.run(first);
    assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
    world.run(permit.release()).expect("released");
    let permit = world.run(second).expect("the next in line");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_timeout_that_meets_the_grant_ends_as_one_of_them() {
    // The timeout ends at every millisecond of an acquisition.
    let mut outcomes = [0, 0];
    for after in 1..30 {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        match world.run(semaphore.acquire_timeout(millis(after))) {
            Ok(permit) => {
                assert!(permit.is_held());
                outcomes[0] += 1;
                world.run(permit.release()).expect("released");
            }
            Err(Error::Timeout { waited, .. }) => {
                assert_eq!(waited, millis(after));
                outcomes[1] += 1;
            }
            other => panic!("after {after} ms: {other:?}"),
        }
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
    assert!(outcomes.iter().all(|count| *count > 5), "{outcomes:?}");
}

#[test]
fn cancelling_at_any_time_leaves_nothing() {
    cancel_at_every_step(|world, step| world.advance(std::time::Duration::from_micros(250 * step)));
}

#[test]
fn cancelling_after_any_request_leaves_nothing() {
    cancel_at_every_step(|world, step| {
        // The request number `step` is under way when the future is dropped.
        for _ in 0..10_000 {
            if world.stats().total_requests() >= step {
                break;
            }
            world.advance(std::time::Duration::from_micros(100));
        }
    });
}

#[test]
fn cancelling_an_instant_try_at_any_time_leaves_nothing() {
    cancelling_leaves_nothing(|semaphore| async move {
        let permit = semaphore.try_acquire().await.expect("an answer");
        permit.expect("a free slot")
    });
}

#[test]
fn cancelling_one_for_several_permits_at_any_time_leaves_nothing() {
    cancelling_leaves_nothing(|semaphore| async move {
        semaphore.acquire_many(3).await.expect("free slots")
    });
}

/// Cancels a quarter of a millisecond later each time, until the grant comes first.
fn cancelling_leaves_nothing<F>(acquire: impl Fn(Semaphore) -> F)
where
    F: Future<Output = Permit> + Send + 'static,
{
    for step in 0..1_000 {
        let world = MockConsul::new(1);
        let mut waiting = world.start(acquire(semaphore(&world, "a", 3)));
        world.advance(std::time::Duration::from_micros(250 * step));
        let granted = waiting.try_take();
        let was_granted = granted.is_some();
        waiting.abort();
        drop(granted);
        world.advance(secs(1));
        assert_nothing_left(&world);
        if was_granted {
            assert!(step > 2, "granted at once");
            return;
        }
    }
    panic!("never granted");
}

#[test]
fn cancelling_one_that_waits_leaves_the_holder_alone() {
    for wait in [2, 3, 5, 7, 9, 100, 5_000, 20_000] {
        let world = MockConsul::new(1);
        let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
        let permit = world.run(hosts[0].acquire()).expect("a free slot");
        let waiter = hosts[1].clone();
        let waiting = world.start(async move { waiter.acquire().await });
        world.advance(millis(wait));
        waiting.abort();
        world.advance(KEPT);
        assert!(permit.is_held());
        assert_eq!(contender_keys(&world).len(), 1, "after {wait} ms");
        assert_eq!(session_count(&world), 1, "after {wait} ms");
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn cancelling_at_any_time_of_a_handoff_leaves_nothing() {
    for step in 0..60 {
        let world = MockConsul::new(1);
        let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
        let permit = world.run(hosts[0].acquire()).expect("a free slot");
        let waiter = hosts[1].clone();
        let mut waiting = world.start(async move { waiter.acquire().await });
        world.advance(secs(1));
        drop(permit);
        world.advance(std::time::Duration::from_micros(250 * step));
        let granted = waiting.try_take();
        waiting.abort();
        drop(granted);
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn cancelling_when_answers_are_lost_leaves_nothing() {
    let cancelled_after = |world: &MockConsul, wait| {
        let semaphore = semaphore(world, "a", 1);
        let waiting = world.start(async move { semaphore.acquire().await });
        world.advance(millis(wait));
        waiting.abort();
        // A session whose creation got no answer ends by its TTL.
        world.advance(secs(60));
        assert_nothing_left(world);
    };
    for is in [creates_session, enters, writes_record] {
        let mut struck = 0;
        for wait in [5, 8, 10, 500, 4_000] {
            let sent = Spy::undisturbed(1, is, |world| cancelled_after(world, wait));
            for fault in [Fault::LoseAnswer, Fault::ResetAfter, Fault::LoseRequest] {
                for skip in 0..sent.min(2) {
                    let world = MockConsul::new(1);
                    world.inject(Rule::new(fault.clone()).matching(is).skip(skip));
                    cancelled_after(&world, wait);
                    struck += 1;
                }
            }
        }
        assert!(struck > 0, "never sent");
    }
}

#[test]
fn a_waiter_that_leaves_is_gone_even_if_its_way_out_is_not_answered() {
    for is in [deletes_key, destroys_session] {
        for fault in [
            Fault::LoseAnswer,
            Fault::LoseRequest,
            Fault::ResetBefore,
            Fault::BadAnswer,
            Fault::no_leader(),
            Fault::Duplicate(secs(2)),
        ] {
            let world = MockConsul::new(1);
            let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
            let permit = world.run(hosts[0].acquire()).expect("a free slot");
            let waiter = hosts[1].clone();
            let waiting = world.start(async move { waiter.acquire().await });
            world.advance(secs(1));
            assert_eq!(contender_keys(&world).len(), 2);
            world.inject(Rule::new(fault.clone()).matching(is).host("b"));
            waiting.abort();
            world.advance(secs(10));
            assert_eq!(world.pending_rules(), 0, "{fault}");
            assert_eq!(contender_keys(&world).len(), 1, "{fault}");
            assert_eq!(session_count(&world), 1, "{fault}");
            assert!(permit.is_held());
            world.run(permit.release()).expect("released");
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn a_cancelled_acquisition_is_not_retried() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = semaphore(&world, "a", 1);
    let handle = semaphore.clone();
    let waiting = world.start(async move { handle.acquire().await });
    world.advance(millis(3));
    waiting.abort();
    world.advance(secs(600));
    assert!(spy.count(writes_record) == 0);
    assert_nothing_left(&world);
    // The handle still works.
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

/// Cancels one step later each time, until the grant comes first.
fn cancel_at_every_step(mut go: impl FnMut(&MockConsul, u64)) {
    for step in 0..1_000 {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let mut waiting = world.start(async move { semaphore.acquire().await });
        go(&world, step);
        let granted = waiting.try_take();
        let was_granted = granted.is_some();
        waiting.abort();
        drop(granted);
        world.advance(secs(1));
        assert_nothing_left(&world);
        if was_granted {
            assert!(step > 2, "granted at once");
            return;
        }
    }
    panic!("never granted");
}
