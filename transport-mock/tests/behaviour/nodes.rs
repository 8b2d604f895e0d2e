//! Agents on separate nodes. A session belongs to the node of the agent that it was created
//! through, and ends with that node.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use crate::support::{SECOND, create_session, put, session_id, status, text, watch};
use semaphore_core::adapter::{Method, Request, Transport, TransportErrorKind};
use transport_mock::consul::NODE;
use transport_mock::{MockClient, MockConsul};

fn nodes_of_sessions(world: &MockConsul) -> Vec<String> {
    let mut nodes: Vec<String> = world.consul(|consul, _| {
        let nodes = consul.sessions().map(|it| it.node().to_owned());
        nodes.collect()
    });
    nodes.sort();
    nodes
}

async fn said(client: &MockClient, request: Request) -> String {
    text(&client.send(request).await.expect("an answer"))
}

async fn new_session(client: &MockClient) -> String {
    session_id(&client.send(create_session()).await.expect("an answer"))
}

fn acquire(key: &str, session: &str) -> Request {
    put(&format!("{key}?acquire={session}"), "held")
}

/// A world in which the hosts `a` and `b` talk to different servers.
fn two_servers() -> MockConsul {
    let world = MockConsul::new(1);
    world.set_agent("a", "server-2");
    world
}

#[test]
fn a_session_stands_on_the_node_of_the_agent_that_it_was_made_through() {
    let world = two_servers();
    world.run(new_session(&world.client("a")));
    world.run(new_session(&world.client("b")));
    assert_eq!(nodes_of_sessions(&world), [NODE, "server-2"]);
}

#[test]
fn an_agent_tells_its_own_node() {
    let world = two_servers();
    let node = |host| {
        let request = Request::new(Method::Get, "/v1/agent/self");
        world.run(said(&world.client(host), request))
    };
    assert!(node("a").contains(r#""NodeName":"server-2""#));
    assert!(node("b").contains(r#""NodeName":"mock""#));
}

#[test]
fn the_sessions_of_a_node_end_with_it_whatever_their_ttl_and_their_lock_delays_begin() {
    let world = two_servers();
    let (a, b) = (world.client("a"), world.client("b"));
    let (lost, kept) = (world.run(new_session(&a)), world.run(new_session(&b)));
    assert_eq!(world.run(said(&a, acquire("key", &lost))), "true");
    world.partition("a");
    world.advance(SECOND);
    world.deregister_node("server-2");
    assert_eq!(nodes_of_sessions(&world), [NODE]);
    assert_eq!(world.run(said(&b, acquire("key", &kept))), "false");
    world.advance(15 * SECOND);
    assert_eq!(world.run(said(&b, acquire("key", &kept))), "true");
}

#[test]
fn whoever_waits_for_a_key_of_a_lost_node_is_woken() {
    let world = two_servers();
    let (a, b) = (world.client("a"), world.client("b"));
    let lost = world.run(new_session(&a));
    world.run(said(&a, acquire("key", &lost)));
    let index = world.consul(|consul, _| consul.last_index());
    let wait = watch("key", index, 60 * SECOND);
    let mut waits = world.start(async move { said(&b, wait).await });
    world.advance(SECOND);
    assert_eq!(waits.try_take(), None);
    world.deregister_node("server-2");
    world.advance(SECOND);
    assert_eq!(waits.try_take().as_deref(), Some("held"));
}

#[test]
fn an_agent_whose_node_is_missing_makes_no_session_until_it_is_registered_again() {
    let world = two_servers();
    let a = world.client("a");
    world.deregister_node("server-2");
    let refused = world.run(said(&a, create_session()));
    assert_eq!(refused, "Missing node registration");
    assert_eq!(world.run(status(&a, put("key", "v"))), Ok(200), "all else");
    world.register_node("server-2");
    world.run(new_session(&a));
    assert_eq!(nodes_of_sessions(&world), ["server-2"]);
}

#[test]
fn a_host_can_go_over_to_another_agent() {
    let world = two_servers();
    let a = world.client("a");
    let id = world.run(new_session(&a));
    world.set_agent("a", NODE);
    world.run(new_session(&a));
    assert_eq!(nodes_of_sessions(&world), [NODE, "server-2"]);
    let renewal = Request::new(Method::Put, format!("/v1/session/renew/{id}"));
    assert_eq!(world.run(status(&a, renewal)), Ok(200));
}

#[test]
fn a_node_can_be_taken_away_while_its_host_is_stalled() {
    let world = two_servers();
    let a = world.client("a");
    world.stall("a");
    let seen = world.run(status(&a, create_session()));
    assert_eq!(seen, Err(TransportErrorKind::Timeout));
    world.deregister_node("server-2");
    world.heal("a");
    world.advance(SECOND);
    assert!(nodes_of_sessions(&world).is_empty(), "it came too late");
}
