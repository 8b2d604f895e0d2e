//! The sender of a write can't know its outcome. It finds out, and never guesses. Nobody gets two
//! slots for one, nobody holds beyond the limit, and nothing is left.

use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use semaphore_core::Semaphore;
use semaphore_core::sans_io::Response;
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::aftermath::{Step, assert_recovered, step, steps};
use crate::support::*;

/// What can happen to a write, and whether its sender learns of it.
fn faults() -> Vec<Fault> {
    let html = "<html><h1>504 Gateway Time-out</h1></html>";
    vec![
        Fault::Refuse,
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::BadAnswer,
        Fault::AnswerAfter(Response::new(504, html)),
        Fault::AnswerAfter(Response::new(200, html)),
        Fault::AnswerAfter(Response::new(500, "No cluster leader")),
        Fault::Answer(Response::new(504, html)),
        Fault::too_many_requests(),
        Fault::Duplicate(millis(1)),
        Fault::Duplicate(secs(2)),
        Fault::Duplicate(secs(40)),
        // The client gives up after 3 s.
        Fault::Delay(secs(1)),
        Fault::Delay(secs(4)),
        Fault::Delay(secs(40)),
        Fault::DelayAnswer(secs(1)),
        Fault::DelayAnswer(secs(4)),
    ]
}

/// Two hosts want the one slot, twice each. The outcome of one of the first host's writes is
/// unknown.
fn share_a_slot(step: Step, fault: &Fault) {
    let world = MockConsul::new(3);
    world.inject(step.aim(Rule::new(fault.clone()).host("a")));
    let turns = |semaphore: Semaphore| {
        let world = world.clone();
        async move {
            for _ in 0..2 {
                let permit = semaphore.acquire().await.expect("a slot");
                for _ in 0..10 {
                    assert!(permit.is_held());
                    let entry = permit.sequencers()[0].session.to_string();
                    assert_eq!(holders(&world), [entry]);
                    world.sleep(millis(100)).await;
                }
                permit.release().await.expect("released");
            }
        }
    };
    let tasks = ["a", "b"].map(|host| turns(semaphore(&world, host, 1)));
    world.run(join_all(tasks));
    let took = world.now().since_origin();
    let what = format!("{} with {fault}: {took:?}\n{}", step.0, world.trace());
    assert!(took < secs(25), "{what}");
    world.advance(secs(60));
    assert_recovered(&world, 1);
}

#[test]
fn a_write_of_unknown_outcome_is_resolved() {
    for step in steps().filter(|step| step.is_write()) {
        for fault in faults() {
            share_a_slot(step, &fault);
        }
    }
}

#[test]
fn a_cancelled_claim_that_is_applied_later_is_fenced() {
    for cancelled_after in [millis(100), secs(2), secs(4)] {
        let world = MockConsul::new(3);
        let late = Rule::new(Fault::Delay(secs(5))).host("a");
        world.inject(step("claim").aim(late));
        let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
        world.run(async {
            let acquire = Box::pin(a.acquire());
            let alarm = Box::pin(world.sleep(cancelled_after));
            match select(acquire, alarm).await {
                Either::Left((permit, _)) => {
                    // The acquisition had retried, and the slot is ours.
                    permit.expect("a slot").release().await.expect("released");
                }
                Either::Right(_) => {}
            }
            let permit = b.acquire_timeout(secs(10)).await.expect("a slot");
            let ours = permit.sequencers()[0].session.to_string();
            for _ in 0..100 {
                assert!(permit.is_held());
                assert_eq!(holders(&world), std::slice::from_ref(&ours));
                world.sleep(millis(100)).await;
            }
            permit.release().await.expect("released");
        });
        assert_recovered(&world, 1);
    }
}

#[test]
fn a_cancelled_claim_that_nobody_else_fences_leaves_nothing_either() {
    for cancelled_after in [millis(100), secs(2), millis(3_500), secs(4)] {
        let world = MockConsul::new(3);
        let late = Rule::new(Fault::Delay(secs(5))).host("a");
        world.inject(step("claim").aim(late));
        let a = semaphore(&world, "a", 1);
        let mut waiting = world.start(async move { a.acquire().await });
        world.advance(cancelled_after);
        let granted = waiting.try_take();
        waiting.abort();
        drop(granted);
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn a_claim_that_was_given_up_does_not_hold_up_the_next_task() {
    let world = MockConsul::new(3);
    let late = Rule::new(Fault::LoseRequest).host("a");
    world.inject(step("claim").aim(late));
    let a = semaphore(&world, "a", 1);
    let given_up = world.run(a.acquire_timeout(secs(1)));
    assert!(given_up.is_err());
    let start = world.now();
    let permit = world.run(a.acquire()).expect("a slot");
    let waited = world.now().saturating_since(start);
    assert!(waited < secs(4), "{waited:?}\n{}", world.trace());
    world.run(permit.release()).expect("released");
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_cancelled_claim_that_was_applied_is_taken_back() {
    for fault in [Fault::LoseAnswer, Fault::ResetAfter] {
        let world = MockConsul::new(3);
        world.inject(step("claim").aim(Rule::new(fault)));
        let a = semaphore(&world, "a", 1);
        world.run(async {
            let acquire = Box::pin(a.acquire());
            let is_applied = Box::pin(async {
                while holders(&world).is_empty() {
                    world.sleep(Duration::from_micros(100)).await;
                }
            });
            let raced = select(acquire, is_applied).await;
            assert!(matches!(raced, Either::Right(_)), "it can't know yet");
            drop(raced);
            let start = world.now();
            let permit = semaphore(&world, "b", 1).acquire().await.expect("a slot");
            assert!(world.now().saturating_since(start) < secs(5));
            permit.release().await.expect("released");
        });
        assert_recovered(&world, 1);
    }
}
