//! The cost of the next semaphore in a process that has a session already.

use std::collections::BTreeMap;

use semaphore_core::sans_io::{Method, Request};
use semaphore_core::{Client, Permit};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::client::{client, numbered};
use crate::support::spy::Spy;
use crate::support::steps::{creates_record, is_transaction, verbs};
use crate::support::*;

/// The number of requests, and of writes to Consul's log.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(usize, usize);

/// What an acquisition costs with a session that is there. A newcomer reads before it makes one
/// write, or enters and then claims.
const ACQUIRED: Cost = Cost(2, 2);

/// Whether Consul writes the request to its log. A renewal is not written.
fn is_logged(request: &Request) -> bool {
    if is_transaction(request) {
        let reads = |verb: &String| verb.starts_with("get") || verb.starts_with("check");
        return !verbs(request).iter().all(reads);
    }
    let kind = RequestKind::of(request);
    request.method() != Method::Get && kind != RequestKind::SessionRenew
}

/// Acquires. Returns what this host sent until the grant.
fn acquire(world: &MockConsul, client: &Client, number: usize) -> (Permit, Cost) {
    let spy = Spy::on_host(world, "a");
    let permit = world.run(numbered(client, number).acquire());
    let cost = Cost(spy.requests().len(), spy.count(is_logged));
    (permit.expect("a free slot"), cost)
}

fn release(world: &MockConsul, permit: Permit) -> Cost {
    let spy = Spy::on_host(world, "a");
    world.run(permit.release()).expect("released");
    Cost(spy.requests().len(), spy.count(is_logged))
}

#[test]
fn each_after_the_first_is_acquired_by_two_requests_and_released_by_one() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let (first, _) = acquire(&world, &client, 0);
    let mut held = BTreeMap::new();
    for number in 1..20 {
        let (permit, cost) = acquire(&world, &client, number);
        assert_eq!(cost, ACQUIRED, "of number {number}\n{}", world.trace());
        held.insert(number, permit);
    }
    assert_eq!(session_count(&world), 1);
    for (number, permit) in held {
        let cost = release(&world, permit);
        assert_eq!(cost, Cost(1, 1), "of number {number}\n{}", world.trace());
    }
    assert!(first.is_held());
    world.run(first.release()).expect("released");
}

#[test]
fn it_costs_no_more_where_others_have_made_the_record() {
    let world = MockConsul::new(1);
    let other = client(&world, "b");
    for number in 1..4 {
        let permit = world.run(numbered(&other, number).acquire());
        world
            .run(permit.expect("a free slot").release())
            .expect("released");
    }
    let client = client(&world, "a");
    let (first, _) = acquire(&world, &client, 0);
    for number in 1..4 {
        let (permit, cost) = acquire(&world, &client, number);
        assert_eq!(cost, ACQUIRED, "of number {number}\n{}", world.trace());
        assert_eq!(release(&world, permit), Cost(1, 1));
    }
    assert!(first.is_held());
}

#[test]
fn a_session_that_was_kept_serves_as_one_that_is_held() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let (first, _) = acquire(&world, &client, 0);
    world.run(first.release()).expect("released");
    world.advance(millis(200));
    let (permit, cost) = acquire(&world, &client, 1);
    assert_eq!(cost, ACQUIRED, "{}", world.trace());
    assert_eq!(release(&world, permit), Cost(1, 1));
}

/// Two callers come at the same time, and one comes later. Each token is higher than those before
/// it.
#[test]
fn who_makes_the_record_has_a_lower_token_than_all_who_come_after_it() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let (_first, _) = acquire(&world, &client, 0);
    let semaphore = numbered(&client, 1);
    let several = world.run(async {
        let both = futures_util::future::join(semaphore.acquire(), semaphore.acquire()).await;
        [both.0.expect("a slot"), both.1.expect("a slot")]
    });
    let last = world.run(semaphore.acquire()).expect("a slot");
    let mut tokens: Vec<_> = several.iter().map(Permit::fencing_token).collect();
    tokens.sort();
    tokens.push(last.fencing_token());
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

/// For example `consul lock`, which deletes the record at its end.
#[test]
fn tokens_rise_also_where_somebody_deletes_the_record() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let (_first, _) = acquire(&world, &client, 0);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        for _ in 0..2 {
            let (permit, _) = acquire(&world, &client, 1);
            tokens.push(permit.fencing_token());
            world.run(permit.release()).expect("released");
        }
        world.advance(secs(1));
        stranger::operate(&world, Method::Delete, "/v1/kv/service/1/.lock", "");
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn where_the_answer_to_the_first_write_is_lost_the_record_tells_the_token() {
    let lost = [Fault::LoseAnswer, Fault::LoseRequest];
    for fault in lost {
        let world = MockConsul::new(1);
        let client = client(&world, "a");
        let (_first, _) = acquire(&world, &client, 0);
        world.inject(Rule::new(fault).matching(creates_record).times(1));
        let (permit, _) = acquire(&world, &client, 1);
        let mut tokens = vec![permit.fencing_token()];
        world.run(permit.release()).expect("released");
        for _ in 0..2 {
            let (permit, _) = acquire(&world, &client, 1);
            tokens.push(permit.fencing_token());
            world.run(permit.release()).expect("released");
        }
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    }
}

/// The first write may be applied after its caller has given up. Nothing of it stays.
#[test]
fn one_that_gives_up_while_the_first_write_is_under_way_leaves_nothing() {
    for fault in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Delay(secs(12)),
    ] {
        let world = MockConsul::new(1);
        let client = client(&world, "a");
        let (first, _) = acquire(&world, &client, 0);
        world.inject(Rule::new(fault).matching(creates_record).times(1));
        let semaphore = numbered(&client, 1);
        let waits = world.start(async move { semaphore.acquire().await });
        world.advance(millis(5));
        waits.abort();
        world.advance(secs(60));
        let keys = world.consul(|consul, _| consul.entries("service/1/").count());
        assert!(keys <= 1, "the record alone\n{}", world.trace());
        assert_eq!(world.holders("service/1"), [""; 0], "{}", world.trace());
        assert!(first.is_held());
    }
}
