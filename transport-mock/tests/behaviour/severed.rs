//! An agent on the smaller side of servers that are parted.
#![expect(clippy::expect_used, reason = "helpers of tests")]

use crate::support::{SECOND, create_session, get, put, session_id, status, stored};
use semaphore_core::adapter::{Method, Request, Transport};
use transport_mock::{MockClient, MockConsul};

fn renew(session: &str) -> Request {
    Request::new(Method::Put, format!("/v1/session/renew/{session}"))
}

fn read(query: &str) -> Request {
    Request::new(Method::Get, format!("/v1/kv/key?raw{query}"))
}

fn said(world: &MockConsul, client: &MockClient, request: Request) -> (u16, String) {
    let answer = world.run(client.send(request)).expect("an answer");
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    (answer.status(), text)
}

/// A key and a session, then `a` is parted from `b`, who changes the key.
fn parted() -> (MockConsul, MockClient, String) {
    let world = MockConsul::new(1);
    let (a, b) = (world.client("a"), world.client("b"));
    assert_eq!(said(&world, &b, put("key", "one")).1, "true");
    let session = session_id(&world.run(a.send(create_session())).expect("an answer"));
    world.sever("a");
    assert_eq!(said(&world, &b, put("key", "two")).1, "true");
    (world, a, session)
}

#[test]
fn the_former_leader_answers_reads_and_renewals_by_its_state_and_takes_no_write() {
    let (world, a, session) = parted();
    assert_eq!(said(&world, &a, read("")), (200, "one".to_owned()));
    assert_eq!(said(&world, &a, renew(&session)).0, 200);
    assert_eq!(said(&world, &a, read("&consistent")).0, 500);
    assert_eq!(said(&world, &a, put("key", "three")).0, 500);
    assert_eq!(stored(&world, "key").as_deref(), Some("two"));
}

#[test]
fn after_it_has_stepped_down_only_stale_reads_are_answered_until_the_sides_meet() {
    let (world, a, session) = parted();
    world.step_down("a");
    for request in [
        read(""),
        read("&consistent"),
        renew(&session),
        put("key", "x"),
    ] {
        let (status, text) = said(&world, &a, request);
        assert_eq!((status, text.as_str()), (500, "No cluster leader"));
    }
    assert_eq!(said(&world, &a, read("&stale")), (200, "one".to_owned()));
    world.catch_up("a");
    assert_eq!(said(&world, &a, read("")), (200, "two".to_owned()));
    assert_eq!(said(&world, &a, renew(&session)).0, 200);
}

#[test]
fn a_renewal_at_the_former_leader_renews_nothing_on_the_other_side() {
    let (world, a, session) = parted();
    world.advance(15 * SECOND);
    assert_eq!(said(&world, &a, renew(&session)).0, 200);
    world.advance(10 * SECOND);
    assert_eq!(world.consul(|consul, _| consul.sessions().count()), 0);
}

#[test]
fn a_poll_under_way_is_not_woken_by_the_other_side() {
    let world = MockConsul::new(1);
    let (a, b) = (world.client("a"), world.client("b"));
    assert_eq!(said(&world, &b, put("key", "one")).1, "true");
    let index = world.consul(|consul, _| consul.last_index());
    let poll = read(&format!("&index={index}&wait=60s")).with_timeout(100 * SECOND);
    let mut poll = world.start(async move { a.send(poll).await });
    world.advance(SECOND);
    world.sever("a");
    assert_eq!(said(&world, &b, put("key", "two")).1, "true");
    world.advance(5 * SECOND);
    assert!(poll.try_take().is_none(), "it was woken");
    world.catch_up("a");
    let answer = world.run(poll).expect("an answer");
    assert_eq!(answer.body(), b"two");
}

#[test]
fn what_was_held_for_a_leader_is_applied_when_the_sides_meet() {
    let (world, a, _) = parted();
    world.hold_without_leader_as_agents_do();
    world.step_down("a");
    let write = put("key", "three").with_timeout(SECOND);
    assert!(world.run(status(&a, write)).is_err(), "given up");
    // An election of the other side is none of this one.
    world.lose_leader();
    world.elect_leader();
    world.advance(SECOND);
    assert_eq!(stored(&world, "key").as_deref(), Some("two"));
    world.catch_up("a");
    world.advance(SECOND);
    assert_eq!(stored(&world, "key").as_deref(), Some("three"));
    assert_eq!(world.run(status(&a, get("key"))), Ok(200));
}
