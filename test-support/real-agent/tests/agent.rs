//! One agent: it starts, answers, can be disturbed, and ends.

use std::net::TcpStream;
use std::time::Duration;

use real_agent::{Agent, StartError};

#[test]
fn an_agent_answers_once_it_is_started() {
    let agent = Agent::start().unwrap();
    let session = agent.client().create_session("{}").unwrap();
    let answer = agent
        .client()
        .get(&format!("/v1/session/info/{session}"))
        .unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json().unwrap()[0]["Node"], agent.node());
    assert!(answer.index.is_some());
}

#[test]
fn a_dropped_agent_is_gone() {
    let agent = Agent::start().unwrap();
    let addr = agent.addr();
    assert!(TcpStream::connect(addr).is_ok());
    drop(agent);
    assert!(TcpStream::connect(addr).is_err());
}

#[test]
fn a_stopped_agent_answers_nothing_until_it_is_continued() {
    let mut agent = Agent::start().unwrap();
    agent.stop().unwrap();
    let hurried = agent.client().with_timeout(Duration::from_millis(300));
    assert!(hurried.get("/v1/status/leader").is_err());
    agent.cont().unwrap();
    assert_eq!(agent.client().get("/v1/status/leader").unwrap().status, 200);
}

#[test]
fn a_stopped_agent_ends_on_drop() {
    let mut agent = Agent::start().unwrap();
    agent.stop().unwrap();
    drop(agent);
}

#[test]
fn a_killed_agent_refuses_connections_and_restarts_empty_on_the_same_port() {
    let mut agent = Agent::start().unwrap();
    agent.client().put("/v1/kv/key", b"value").unwrap();
    agent.kill().unwrap();
    assert!(TcpStream::connect(agent.addr()).is_err());
    assert!(agent.stop().is_err());
    agent.restart().unwrap();
    assert_eq!(agent.client().get("/v1/kv/key").unwrap().status, 404);
}

#[test]
fn a_durable_agent_remembers_across_a_restart() {
    let mut agent = Agent::builder().durable().start().unwrap();
    agent.client().put("/v1/kv/key", b"value").unwrap();
    agent.restart().unwrap();
    let answer = agent.client().get("/v1/kv/key?raw").unwrap();
    assert_eq!(answer.text(), "value");
}

#[test]
fn agents_started_at_once_do_not_disturb_each_other() {
    let starting: Vec<_> = (0..4).map(|_| std::thread::spawn(Agent::start)).collect();
    for agent in starting {
        let agent = agent.join().unwrap().unwrap();
        let nodes = agent.client().get("/v1/catalog/nodes").unwrap().json();
        assert_eq!(nodes.unwrap().as_array().unwrap().len(), 1);
    }
}

#[test]
fn the_shared_agent_is_one() {
    let client = Agent::shared().unwrap();
    client.put("/v1/kv/shared/key", b"here").unwrap();
    let again = Agent::shared().unwrap().get("/v1/kv/shared/key?raw");
    assert_eq!(again.unwrap().text(), "here");
}

#[test]
fn bad_configuration_is_an_error_that_shows_the_log() {
    let error = Agent::builder().config("no_such_key = 1").start();
    let error = error.expect_err("the configuration is bad");
    assert!(matches!(error, StartError::Exited { .. }));
    assert!(error.to_string().contains("no_such_key"), "{error}");
}

/// The watchdog of an agent that has ended must not end the agent that follows.
#[test]
fn an_agent_that_was_told_to_end_can_be_killed_and_started_again_later() {
    let mut agent = Agent::start().unwrap();
    agent.terminate().unwrap();
    agent.restart().unwrap();
    agent.kill().unwrap();
    agent.restart().unwrap();
    agent.client().create_session("{}").unwrap();
}
