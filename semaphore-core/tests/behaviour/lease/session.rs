//! The sessions of contenders: created, renewed, replaced and ended.

use std::time::Duration;

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Builder, Error, Lost, RequestError};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::spy::{Spy, json};
use crate::support::steps::enters;
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

/// The times when requests for this path were sent, in seconds of the trace.
fn sent(world: &MockConsul, path: &str) -> Vec<f64> {
    world
        .trace()
        .lines()
        .filter(|line| line.contains(" > ") && line.contains(path))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect()
}

#[test]
fn what_is_held_is_renewed_after_a_sixteenth_to_a_twelfth_of_the_ttl_and_after_five_seconds_at_most()
 {
    for (ttl, twelfth) in [
        (15, 1.25),
        (30, 2.5),
        (10, 10.0 / 12.0),
        (60, 5.0),
        (3_600, 5.0),
    ] {
        let world = MockConsul::new(1);
        let semaphore = connect(builder(1).ttl(secs(ttl)), &world.client("a"));
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(secs(ttl.min(60) * 10));
        let created = sent(&world, "/v1/session/create")[0];
        let mut last = created;
        let renewals = sent(&world, "/v1/session/renew");
        assert!((119..=160).contains(&renewals.len()), "{}", renewals.len());
        for at in renewals {
            let after = at - last;
            let is_due = (twelfth * 0.75 - 0.002..twelfth + 0.002).contains(&after);
            assert!(is_due, "TTL {ttl}: after {after}");
            last = at;
        }
        world.run(permit.release()).expect("released");
        world.advance(secs(24));
        assert_nothing_left(&world);
    }
}

/// The renewal comes after a quarter to a third of the TTL.
#[test]
fn one_that_waits_is_renewed_too() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(300));
    let stats = world.stats_of("b");
    assert_eq!(stats.requests_of(RequestKind::SessionCreate), 1);
    let renewals = stats.requests_of(RequestKind::SessionRenew);
    assert!((58..=80).contains(&renewals), "{renewals}");
    drop(permit);
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn renewals_end_with_the_hold() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(7));
    let renewals = sent(&world, "/v1/session/renew").len();
    assert!(renewals > 0);
    world.run(permit.release()).expect("released");
    world.advance(secs(100));
    assert_eq!(sent(&world, "/v1/session/renew").len(), renewals);
    assert_nothing_left(&world);
}

#[test]
fn the_deadline_counts_from_the_sending_of_the_last_renewal_that_succeeded() {
    let world = MockConsul::new(1);
    world.set_latency(millis(400)..=millis(400));
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(10));
    // The last renewal that can be confirmed by now. An answer takes 800 ms; its proof goes along
    // with it, or follows it.
    let took = 0.8;
    let now = world.now().since_origin().as_secs_f64();
    let mut renewals = sent(&world, "/v1/session/renew");
    renewals.retain(|at| at + took < now);
    let last = renewals.pop().expect("a renewal");
    let deadline = (world.now() + permit.remaining()).since_origin();
    // The trace has microseconds.
    let expected = Duration::from_secs_f64(last) + millis(13_500) + Duration::from_micros(1);
    // A proof may be older, by as much as answers take.
    assert!(
        deadline <= expected && deadline.abs_diff(expected) < millis(800),
        "{deadline:?} {expected:?}"
    );
    world.run(permit.release()).expect("released");
    world.advance(secs(2));
    assert_nothing_left(&world);
}

#[test]
fn a_renewal_that_fails_is_tried_again_and_costs_nothing() {
    for fault in [
        Fault::no_leader(),
        Fault::too_many_requests(),
        Fault::unavailable(),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ResetAfter,
        Fault::Refuse,
        Fault::BadAnswer,
        Fault::Answer(Response::new(404, "<html>not here</html>")),
        Fault::Answer(Response::new(403, "Permission denied")),
        Fault::AnswerAfter(Response::new(502, "bad gateway")),
    ] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        let rule = Rule::new(fault.clone()).kind(RequestKind::SessionRenew);
        world.inject(rule.times(2));
        world.advance(secs(60));
        assert_eq!(world.pending_rules(), 0, "{fault}");
        assert!(permit.is_held(), "{fault}");
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn renewals_that_keep_failing_are_paced() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let rule = Rule::new(Fault::no_leader()).kind(RequestKind::SessionRenew);
    world.inject(rule.always());
    assert!(matches!(
        world.run(permit.lost()),
        Lost::LeaseExpired { .. }
    ));
    let tries = sent(&world, "/v1/session/renew").len();
    // One try per quarter to half of a second.
    assert!((15..=55).contains(&tries), "{tries}");
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_longer_ttl_that_the_server_tells_makes_no_longer_lease() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    // A leader under load may ask for fewer renewals. The lock delay is still the requested TTL.
    let longer = Response::new(200, r#"[{"ID":"x","TTL":"1m0s"}]"#);
    let rule = Rule::new(Fault::AnswerAfter(longer)).kind(RequestKind::SessionRenew);
    world.inject(rule.times(1));
    while sent(&world, "/v1/session/renew").is_empty() {
        world.advance(millis(10));
    }
    world.advance(millis(50));
    let remaining = permit.remaining();
    assert!(
        remaining > secs(13) && remaining < millis(13_500),
        "{remaining:?}"
    );
    let renewals = sent(&world, "/v1/session/renew").len();
    world.advance(millis(1_300));
    assert!(sent(&world, "/v1/session/renew").len() > renewals);
}

#[test]
fn every_option_is_in_the_body() {
    let world = MockConsul::new(1);
    world.consul(|consul, now| {
        consul.register_node(now, "db-1");
        consul.pass_check(now, "db-1", "disk");
    });
    let spy = Spy::on(&world);
    let semaphore = connect(
        builder(1)
            .session_name("mine")
            .node("db-1")
            .ttl(millis(20_500))
            .lock_delay(secs(0))
            .node_checks(["serfHealth", "disk"]),
        &world.client("a"),
    );
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let [create] = &spy.of(RequestKind::SessionCreate)[..] else {
        panic!("one session");
    };
    assert_eq!(
        json(create),
        serde_json::json!({
            "Name": "mine",
            "Node": "db-1",
            "TTL": "20500000000ns",
            "LockDelay": "0s",
            "Behavior": "delete",
            "NodeChecks": ["serfHealth", "disk"],
        })
    );
    world.run(permit.release()).expect("released");
    world.advance(secs(3));
    assert_nothing_left(&world);
}

#[test]
fn service_checks_are_in_the_body() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = connect(
        builder(1).service_checks(["service:web"]),
        &world.client("a"),
    );
    // The Consul in memory does not know this check, and says so. Nobody retries.
    let result = world.run(semaphore.acquire());
    match result {
        Err(Error::Request(RequestError::Rejected { .. })) => {}
        other => panic!("{other:?}"),
    }
    let [create] = &spy.of(RequestKind::SessionCreate)[..] else {
        panic!("one attempt");
    };
    assert_eq!(
        json(create)["ServiceChecks"],
        serde_json::json!([{"ID": "service:web"}])
    );
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_health_check_that_fails_ends_a_session_that_is_tied_to_it() {
    fails_a_check(builder(1).node_checks(["serfHealth"]), true);
}

#[test]
fn a_health_check_that_fails_means_nothing_to_a_session_with_none() {
    fails_a_check(builder(1), false);
}

fn fails_a_check(builder: Builder, loses: bool) {
    let world = MockConsul::new(1);
    let semaphore = connect(builder, &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.consul(|consul, now| consul.fail_check(now, transport_mock::consul::NODE, "serfHealth"));
    world.advance(secs(2));
    assert_eq!(permit.is_held(), !loses);
    if loses {
        assert!(matches!(world.run(permit.lost()), Lost::SessionGone { .. }));
    }
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn one_that_waits_enters_again_with_another_session_when_its_own_is_gone() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let mut waiting = world.start(async move { waiter.acquire().await });
    for _ in 0..3 {
        world.advance(secs(1));
        let holder = holders(&world).remove(0);
        let own = contender_keys(&world)
            .into_iter()
            .find_map(|key| {
                key.rsplit('/')
                    .next()
                    .map(str::to_owned)
                    .filter(|id| *id != holder)
            })
            .expect("a waiter");
        world.consul(|consul, now| consul.destroy_session(now, &own));
        // It may only see that at the end of a poll.
        world.advance(secs(6));
        assert!(waiting.try_take().is_none());
        assert_eq!(contender_keys(&world).len(), 2, "{}", world.trace());
        assert_eq!(session_count(&world), 2);
    }
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn a_renewal_of_one_that_waits_is_confirmed_where_nothing_ties_its_claim_to_the_session() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(60));
    let stats = world.stats_of("b");
    let renewed = stats.requests_of(RequestKind::SessionRenew);
    assert!(renewed > 2, "{stats:?}");
    let confirmed = 0;
    assert_eq!(stats.requests_of(RequestKind::SessionRead), confirmed);
    drop((permit, waiting));
}

#[test]
fn a_new_leader_that_has_not_caught_up_costs_nobody_a_slot_or_a_place_in_the_queue() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let empty = world.consul(|consul, _| consul.snapshot());
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    let keys = contender_keys(&world);
    world.elect_leader_behind(&empty);
    world.advance(secs(8));
    let trace = world.trace();
    for host in ["a", "b"] {
        let answers = trace
            .lines()
            .filter(|it| it.contains(&format!(" {host} #")));
        let unknown = answers.filter(|it| it.contains("< 404")).count();
        assert!(unknown > 0, "no renewal of {host} was answered 404");
    }
    world.catch_up_leader();
    world.advance(secs(30));
    assert!(permit.is_held());
    assert_eq!(contender_keys(&world), keys);
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn nobody_is_admitted_by_a_session_whose_end_a_new_leader_has_not_applied() {
    let world = MockConsul::new(1);
    let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let permit = world.run(hosts[0].acquire()).expect("a free slot");
    let waiter = hosts[1].clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    world.partition("b");
    world.run(permit.release()).expect("released");
    let free = world.consul(|consul, _| consul.snapshot());
    world.advance(secs(60));
    assert_eq!(session_count(&world), 0, "the waiter's has ended");
    // Its renewal is answered as if its session lived. Its claim is written when the whole log is
    // applied.
    world.elect_leader_behind(&free);
    world.heal("b");
    let late = Fault::DelayAnswer(secs(5));
    world.inject(
        Rule::new(late)
            .host("b")
            .kind(RequestKind::KvWatch)
            .always(),
    );
    let renewed = |world: &MockConsul| world.stats_of("b").requests_of(RequestKind::SessionRenew);
    let before = renewed(&world);
    while renewed(&world) == before {
        world.advance(millis(100));
    }
    world.advance(secs(1));
    world.catch_up_leader();
    let permit = world.run(waiting).expect("a slot");
    let session = permit.sequencers()[0].session.to_string();
    let lives = world.consul(|consul, _| consul.sessions().any(|it| it.id() == session));
    assert!(lives, "{}", world.trace());
    world.run(permit.release()).expect("released");
    world.advance(secs(10));
    assert_nothing_left(&world);
}

#[test]
fn a_session_that_vanished_before_its_key_was_acquired_is_replaced() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    // The answer names the operation that failed.
    let errors = serde_json::json!([{"OpIndex": 1, "What": "invalid session \"x\""}]);
    let body = serde_json::json!({"Results": null, "Errors": errors}).to_string();
    let gone = Response::new(409, body);
    world.inject(Rule::new(Fault::Answer(gone)).matching(enters));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    world.advance(secs(60));
    assert_nothing_left(&world);
}

#[test]
fn a_session_whose_creation_was_not_answered_dies_by_its_ttl() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.inject(Rule::new(Fault::LoseAnswer).kind(RequestKind::SessionCreate));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    assert_eq!(session_count(&world), 2);
    world.advance(secs(31));
    assert_eq!(session_count(&world), 1);
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

/// As a client whose session only releases its keys leaves it.
#[test]
fn a_key_that_its_session_has_left_behind_blocks_nobody() {
    let world = MockConsul::new(1);
    let other = Stranger::session_with(&world, r#"{"NodeChecks":[],"Behavior":"release"}"#);
    let (session, key) = (other.session.to_string(), other.key());
    other.acquires(&world, &key);
    let record = format!(r#"{{"Limit":1,"Holders":{{"{session}":true}}}}"#);
    let target = format!("/v1/kv/{PREFIX}/.lock");
    operate(&world, Method::Put, &target, &record);
    world.consul(|consul, now| consul.destroy_session(now, &session));
    assert_eq!(contender_keys(&world), [key.as_str()]);

    let semaphore = crate::support::semaphore(&world, "b", 1);
    let snapshot = world.run(semaphore.inspect()).expect("a semaphore");
    assert!(!snapshot.holders[0].is_alive);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    assert!(!holders(&world).contains(&session));
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    // Who removes the name of a dead holder may remove its key, too.
    let left = contender_keys(&world);
    assert!(left.is_empty(), "{left:?}");
    assert_nothing_left(&world);
}

#[test]
fn scope_is_in_every_request() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = connect(
        builder(1)
            .datacenter("dc1")
            .token("secret")
            .consistent(true),
        &world.client("a"),
    );
    world.consul(|consul, _| {
        consul.add_token("secret", transport_mock::consul::Policy::management());
    });
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(6));
    world.run(permit.release()).expect("released");
    world.run(semaphore.inspect()).expect("a semaphore");
    for request in spy.requests() {
        let target = request.target();
        assert!(target.contains("dc=dc1"), "{target}");
        assert!(
            request
                .headers()
                .any(|header| header == ("X-Consul-Token", "secret")),
            "{target}"
        );
        let reads = RequestKind::of(&request);
        if matches!(reads, RequestKind::KvRead | RequestKind::KvWatch) {
            assert!(target.contains("consistent"), "{target}");
        }
    }
    assert!(!world.trace().contains("secret"));
    assert_nothing_left(&world);
}

#[test]
fn many_renewals_over_a_slow_network_are_sent_in_the_order_of_their_need() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 90);
    let permits: Vec<_> = (0..90)
        .map(|_| world.run(semaphore.acquire()).expect("a free slot"))
        .collect();
    // At most two dozen at a time, with two requests of a second each. All of them fit into a
    // lease, but not into a third of it.
    world.set_latency(millis(500)..=millis(500));
    world.advance(secs(120));
    let held = permits.iter().filter(|permit| permit.is_held()).count();
    assert_eq!(held, permits.len());
}
