//! A transient failure costs no slot while the lease lasts (invariant L4).

use std::error::Error as _;

use semaphore_core::sans_io::Response;
use semaphore_core::{Error, Lost, RequestError};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::aftermath::{assert_recovered, steps};
use crate::support::*;

/// Every way in which an agent, or a gateway before it, can fail temporarily.
fn failures() -> Vec<Fault> {
    let html = |status: u16| {
        let body = format!("<html><head><title>{status}</title></head></html>");
        Fault::Answer(Response::new(status, body).with_header("Content-Type", "text/html"))
    };
    vec![
        Fault::too_many_requests(),
        Fault::no_leader(),
        Fault::unavailable(),
        html(502),
        html(503),
        html(504),
        Fault::Answer(Response::new(500, "rpc error making call: EOF")),
        Fault::Refuse,
        Fault::ResetBefore,
        Fault::LoseRequest,
    ]
}

#[test]
fn each_request_is_tried_again_until_it_succeeds() {
    for step in steps() {
        for fault in failures() {
            let world = MockConsul::new(5);
            world.inject(step.aim(Rule::new(fault.clone()).times(3)));
            let semaphore = semaphore(&world, "a", 1);
            world.run(async {
                let permit = semaphore.acquire().await.expect("a slot");
                world.sleep(secs(1)).await;
                permit.release().await.expect("released");
                // The watch may not have failed three times yet.
                let permit = semaphore.acquire().await.expect("a slot");
                world.sleep(secs(45)).await;
                assert!(permit.is_held());
                permit.release().await.expect("released");
            });
            assert_recovered(&world, 1);
        }
    }
}

#[test]
fn a_held_slot_survives_what_lasts_shorter_than_its_lease() {
    for fault in failures() {
        let world = MockConsul::new(5);
        let semaphore = semaphore(&world, "a", 1);
        // A renewal may be due when the outage begins, 5 s after the one before. Belief lasts 13.5
        // s. The next attempt comes up to 1.5 s after the outage. After a silence, the last attempt
        // is given up 3 s later.
        let silent = fault == Fault::LoseRequest;
        let outage = if silent { secs(5) } else { secs(7) };
        world.run(async {
            let permit = semaphore.acquire().await.expect("a slot");
            for _ in 0..20 {
                world.sleep(millis(4_700)).await;
                world.inject(Rule::new(fault.clone()).always());
                world.sleep(outage).await;
                assert!(permit.is_held(), "{fault}");
                world.clear_faults();
                world.sleep(secs(4)).await;
            }
            assert!(permit.is_held(), "{fault}");
            permit.release().await.expect("released");
        });
        assert_recovered(&world, 1);
    }
}

#[test]
fn a_held_slot_ends_with_its_lease_and_says_why_it_could_not_be_renewed() {
    for fault in failures() {
        let world = MockConsul::new(5);
        let semaphore = semaphore(&world, "a", 1);
        world.run(async {
            let permit = semaphore.acquire().await.expect("a slot");
            let deadline = world.now() + permit.remaining();
            world.inject(Rule::new(fault.clone()).always());
            let lost = permit.lost().await;
            assert_eq!(world.now(), deadline, "{fault}");
            assert!(!permit.is_held());
            let Lost::LeaseExpired { last_failure, .. } = &lost else {
                panic!("{lost:?}");
            };
            let failure = last_failure.as_ref().expect("a failure");
            assert!(!failure.is_permanent());
            assert!(lost.source().is_some());
            world.clear_faults();
            let error = permit.release().await.expect_err("it was lost");
            assert!(matches!(error, Error::Lost(Lost::LeaseExpired { .. })));
        });
        assert_recovered(&world, 1);
    }
}

#[test]
fn whoever_waits_goes_on_waiting() {
    for fault in failures() {
        let world = MockConsul::new(5);
        let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
        world.run(async {
            let permit = a.acquire().await.expect("a slot");
            let waiting = world.start(async move { b.acquire().await });
            world.sleep(secs(1)).await;
            world.inject(Rule::new(fault.clone()).host("b").always());
            // Its session may expire meanwhile, and then it creates another one.
            world.sleep(secs(120)).await;
            world.clear_faults();
            permit.release().await.expect("released");
            let start = world.now();
            let permit = waiting.await.expect("a slot");
            let delay = world.now().saturating_since(start);
            // A poll that was lost in silence is given up only after its whole time.
            let most = if fault == Fault::LoseRequest { 20 } else { 3 };
            assert!(delay < secs(most), "{fault}: {delay:?}\n{}", world.trace());
            permit.release().await.expect("released");
        });
        assert_recovered(&world, 1);
    }
}

#[test]
fn a_deadline_tells_the_last_failure() {
    let world = MockConsul::new(5);
    world.inject(Rule::new(Fault::no_leader()).always());
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let error = semaphore.acquire_timeout(secs(7)).await;
        let error = error.expect_err("no leader");
        assert_eq!(world.now().since_origin(), secs(7));
        let Error::Timeout { last_failure, .. } = &error else {
            panic!("{error:?}");
        };
        let failure = last_failure.as_ref().expect("a failure");
        assert!(matches!(
            failure,
            RequestError::Unavailable { status: 500, .. }
        ));
        assert!(error.source().is_some());
    });
    assert_recovered(&world, 1);
}

#[test]
fn an_election_shorter_than_the_lease_costs_nobody_a_slot() {
    let world = MockConsul::new(5);
    let semaphores: Vec<_> = (0..3)
        .map(|host| semaphore(&world, &format!("node-{host}"), 2))
        .collect();
    world.run(async {
        let first = semaphores[0].acquire().await.expect("a slot");
        let second = semaphores[1].acquire().await.expect("a slot");
        let third = semaphores[2].clone();
        let waiting = world.start(async move { third.acquire().await });
        for _ in 0..10 {
            world.lose_leader();
            world.sleep(secs(7)).await;
            world.elect_leader();
            world.sleep(secs(3)).await;
            assert!(first.is_held() && second.is_held());
        }
        first.release().await.expect("released");
        let third = waiting.await.expect("a slot");
        assert!(second.is_held());
        second.release().await.expect("released");
        third.release().await.expect("released");
    });
    assert_recovered(&world, 2);
}
