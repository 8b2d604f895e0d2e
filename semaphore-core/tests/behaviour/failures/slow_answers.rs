//! Answers that take up to a third of the TTL.

use semaphore_core::Permit;
use semaphore_core::sans_io::{Priority, Request};
use transport_mock::{MockConsul, RequestKind};

use crate::support::election::*;
use crate::support::spy::Spy;
use crate::support::*;

/// An answer takes this long. The TTL is 15 s.
const SLOW: std::time::Duration = secs(5);

/// A request and its answer take this long together.
fn slow(world: &MockConsul) {
    world.set_latency(SLOW / 2..=SLOW / 2);
}

#[test]
fn what_is_held_is_kept_while_answers_are_slow() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 4);
    let permits: Vec<_> = (0..4)
        .map(|_| world.run(semaphore.acquire()).expect("a free slot"))
        .collect();
    world.advance(secs(10));
    slow(&world);
    world.advance(secs(120));
    for permit in permits {
        assert!(permit.is_held(), "{}", world.trace());
        world.run(permit.release()).expect("released");
    }
    world.set_latency(millis(1)..=millis(1));
    world.advance(secs(30));
    assert_nothing_left(&world);
}

#[test]
fn a_leader_leads_on_while_answers_are_slow() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    slow(&world);
    world.advance(secs(120));
    assert!(leadership.is_leader());
    world.run(leadership.resign()).expect("resigned");
    world.advance(secs(30));
    assert_only_key_left(&world);
}

#[test]
fn a_slot_is_acquired_and_released_by_slow_answers() {
    let world = MockConsul::new(1);
    slow(&world);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire_timeout(secs(60)));
    let permit = permit.expect("a free slot");
    world.advance(secs(60));
    assert!(permit.is_held(), "{}", world.trace());
    world.run(permit.release()).expect("released");
    let created = world.stats().requests_of(RequestKind::SessionCreate);
    assert!(created <= 2, "the first was given up too soon: {created}");
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_slot_passes_on_by_slow_answers() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    slow(&world);
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    // A release takes three answers here, of which the first is given up: 13 s. The lease ends 13.5 s
    // after the last proof was sent.
    world.advance(secs(59));
    world.run(permit.release()).expect("released");
    let next = world.run(waiting).expect("its turn");
    assert!(next.is_held());
}

#[test]
fn a_short_request_may_take_a_fifth_of_the_ttl_and_a_poll_that_much_longer_than_it_is_held_open() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let _permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let _waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(30));
    let (polls, others): (Vec<_>, Vec<_>) =
        spy.requests().into_iter().partition(Request::is_long_poll);
    assert!(polls.len() > 2 && others.len() > 10);
    for request in polls {
        let wait = request.longest_wait().expect("a wait");
        assert_eq!(request.timeout(), wait + secs(3), "{request:?}");
    }
    for request in others {
        // A holder's renewals and proofs may take half of what is left of its lease.
        let most = match request.priority() {
            Priority::Renewal => secs(6),
            _ => secs(3),
        };
        assert!((secs(3)..=most).contains(&request.timeout()), "{request:?}");
    }
}

#[test]
fn a_slow_agent_is_asked_no_more_often_than_a_fast_one() {
    let asked = |latency| {
        let world = MockConsul::new(1);
        let hosts: Vec<_> = (0..20)
            .map(|host| semaphore(&world, &format!("host-{host}"), 20))
            .collect();
        let held = hosts.iter().map(|it| world.run(it.acquire()));
        let held: Vec<_> = held.map(|it| it.expect("a free slot")).collect();
        world.set_latency(latency);
        world.advance(secs(30));
        let before = world.stats().total_requests();
        world.advance(secs(60));
        assert!(held.iter().all(Permit::is_held));
        world.stats().total_requests() - before
    };
    let fast = asked(millis(1)..=millis(1));
    // Longer than T/40, in which a silence would be noticed.
    let slow = asked(millis(400)..=millis(400));
    assert!(slow <= fast + fast / 10, "{fast} requests, then {slow}");
}
