//! The status of a semaphore or an election, without a request.

use semaphore_core::RequestError;
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::election::*;
use crate::support::*;

#[test]
fn it_says_what_is_held_and_who_waits() {
    let world = MockConsul::new(1);
    let a = semaphore(&world, "a", 2);
    let b = semaphore(&world, "b", 2);
    let status = a.status();
    assert_eq!((status.held, status.waiting), (0, 0));
    assert!(status.renewed.is_none());
    let permits = world.run(a.acquire_many(2)).expect("free slots");
    assert_eq!(a.status().held, 2);
    let waits = |semaphore: &semaphore_core::Semaphore| {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire().await })
    };
    let waiting = waits(&b);
    world.advance(secs(3));
    let behind = semaphore(&world, "c", 2);
    let more = [waits(&behind), waits(&behind)];
    world.advance(secs(5));
    let first = b.status().first_waiter.expect("somebody waits");
    assert_eq!((first.waited, first.ahead), (secs(8), Some(0)));
    let status = behind.status();
    assert_eq!((status.held, status.waiting), (0, 2));
    let first = status.first_waiter.expect("somebody waits");
    assert_eq!((first.waited, first.ahead), (secs(5), Some(1)));
    let renewed = a.status().renewed.expect("it is held");
    assert!(renewed < secs(2), "{renewed:?}");
    drop((permits, waiting, more));
}

#[test]
fn it_says_since_when_consul_does_not_answer_and_why() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(10));
    assert!(semaphore.status().is_connected());
    world.inject(Rule::new(Fault::no_leader()).host("a").always());
    world.advance(secs(8));
    let status = semaphore.status();
    let trouble = status.trouble.expect("nothing is served");
    assert!(matches!(trouble.cause, RequestError::Unavailable { .. }));
    assert!(trouble.lasts > secs(5) && trouble.lasts <= secs(8));
    assert!(status.renewed.expect("it is held") >= secs(7));
    assert_eq!(status.held, 1, "its lease lasts");
    world.clear_faults();
    world.advance(secs(10));
    assert!(semaphore.status().is_connected());
    assert!(permit.is_held());
}

#[test]
fn it_sends_nothing() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let before = world.stats();
    for _ in 0..10 {
        let _ = semaphore.status();
        world.advance(secs(1));
    }
    assert_eq!(world.stats(), before);
}

#[test]
fn an_election_says_whether_it_is_led_here() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    assert_eq!(a.status().held, 0);
    let leadership = world.run(a.campaign()).expect("elected");
    assert_eq!((a.status().held, a.status().waiting), (1, 0));
    let b = election(&world, "b");
    let waiting = {
        let b = b.clone();
        world.start(async move { b.campaign().await })
    };
    world.advance(secs(2));
    assert_eq!((b.status().held, b.status().waiting), (0, 1));
    world.partition("a");
    world.advance(secs(20));
    let status = a.status();
    assert_eq!(status.held, 0, "its lease is over");
    assert!(!status.is_connected());
    drop((leadership, waiting));
}
