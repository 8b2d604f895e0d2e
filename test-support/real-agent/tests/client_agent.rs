//! Agents that are no servers: what is theirs in the catalog, and when it goes.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Client, Cluster};

/// Whether a node is in the catalog.
fn has(client: &Client, node: &str) -> bool {
    let nodes = client.get("/v1/catalog/nodes").unwrap().json().unwrap();
    nodes
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it["Node"] == node)
}

#[test]
fn a_client_agent_that_is_told_to_end_takes_its_node_and_sessions_with_it() {
    let cluster = Cluster::start().unwrap();
    let mut agent = cluster.join(&Agent::builder()).unwrap();
    let server = cluster.server(0).client();
    let session = agent
        .client()
        .create_session(r#"{"NodeChecks":[]}"#)
        .unwrap();
    assert!(server.sessions().unwrap().contains(&session));

    agent.terminate().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while has(&server, agent.node()) {
        assert!(Instant::now() < deadline, "its node stays");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(server.sessions().unwrap().is_empty());

    agent.restart().unwrap();
    assert!(has(&server, agent.node()));
}
