//! Client agents, and what ends with them.

use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Cluster};

/// Its node goes, too. But an agent that has only just started may register it once more while it
/// ends.
#[test]
fn the_sessions_of_a_client_agent_that_is_told_to_end_end_with_it() {
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
    while server.sessions().unwrap().contains(&session) {
        assert!(Instant::now() < deadline, "its session stays");
        thread::sleep(Duration::from_millis(20));
    }

    agent.restart().unwrap();
    agent.client().create_session("{}").unwrap();
}
