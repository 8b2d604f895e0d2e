//! The command ends when the hold is lost, before anybody else can hold.

use std::fs;
use std::time::Duration;

use real_agent::{Agent, Proxy};
use tempfile::TempDir;

use crate::support::{Running, contenders, is_alive, names, scene, wait_until};

fn destroy_session_of(running: &mut Running, agent: &real_agent::Client) {
    let granted = running.event("granted");
    let session = granted["session"].as_str().expect("a session");
    agent.destroy_session(session).expect("an answer");
}

#[test]
fn a_session_that_is_destroyed_ends_the_command_and_has_a_code() {
    let (agent, prefix) = scene();
    let mut running = Running::start(
        agent.url(),
        &["--ttl", "10s", &prefix, "--", "sleep", "1000"],
    );
    destroy_session_of(&mut running, &agent);
    let (code, events) = running.end();
    assert_eq!(code, Some(120), "{events:?}");
    let names = names(&events);
    assert!(
        names.contains(&"lost") && names.contains(&"told"),
        "{names:?}"
    );
    assert!(!names.contains(&"killed"), "{names:?}");
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["event"], &last["code"]),
        (&"failed".into(), &120.into())
    );
}

#[test]
fn a_command_that_ends_since_consul_refuses_renewals_is_told_the_refusal() {
    let management = "11111111-2222-3333-4444-555555555555";
    let agent = Agent::builder().acl(management).start().expect("an agent");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, management).expect("a file");
    let file_shown = file.to_string_lossy();
    let mut running = Running::start(
        &agent.url(),
        &[
            "--token-file",
            &file_shown,
            "--ttl",
            "10s",
            "p",
            "--",
            "sleep",
            "1000",
        ],
    );
    running.event("started");
    fs::write(&file, "99999999-2222-3333-4444-555555555555").expect("a file");
    let told = running.event("told");
    let why = told["why"].as_str().expect("a reason");
    assert!(why.contains("ACL not found"), "{why}");
    assert!(!why.contains("not answer"), "{why}");
    assert_eq!(running.end().0, Some(120));
}

#[test]
fn nobody_else_runs_before_a_command_whose_session_was_destroyed_is_dead() {
    let (agent, prefix) = scene();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let arguments = ["--grace", "2s", &prefix, "--", "sh", "-c", script];
    let mut running = Running::start(agent.url(), &arguments);
    let granted = running.event("granted");
    let command = running.command();
    assert_eq!(running.line(), "ready");
    // The first thing that the next command does is to ask whether the first one is alive.
    let asks = format!("kill -0 {command} && exit 9; exit 0");
    let next = Running::start(agent.url(), &[&prefix, "--", "sh", "-c", &asks]);
    wait_until("a waiter", || contenders(&agent, &prefix) == 2);
    let session = granted["session"].as_str().expect("a session");
    agent.destroy_session(session).expect("an answer");
    assert_eq!(running.end().0, Some(120));
    assert_eq!(next.end().0, Some(0), "both ran");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn whoever_does_not_want_to_end_is_killed_when_its_grace_is_over() {
    let (agent, prefix) = scene();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let arguments = ["--grace", "300ms", &prefix, "--", "sh", "-c", script];
    let mut running = Running::start(agent.url(), &arguments);
    assert_eq!(running.line(), "ready");
    destroy_session_of(&mut running, &agent);
    let (code, events) = running.end();
    assert_eq!(code, Some(120), "{events:?}");
    let names = names(&events);
    assert!(
        names.contains(&"told") && names.contains(&"killed"),
        "{names:?}"
    );
}

#[test]
fn it_is_killed_at_once_if_that_is_asked_for() {
    let (agent, prefix) = scene();
    let arguments = ["--on-lost", "kill", &prefix, "--", "sleep", "1000"];
    let mut running = Running::start(agent.url(), &arguments);
    destroy_session_of(&mut running, &agent);
    let (code, events) = running.end();
    assert_eq!(code, Some(120), "{events:?}");
    assert!(!names(&events).contains(&"told"), "{events:?}");
}

#[test]
fn it_goes_on_if_that_is_asked_for_and_the_code_is_its_own() {
    let (agent, prefix) = scene();
    let script = "read x </dev/null; trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done";
    let arguments = ["--on-lost", "ignore", &prefix, "--", "sh", "-c", script];
    let mut running = Running::start(agent.url(), &arguments);
    assert_eq!(running.line(), "ready");
    destroy_session_of(&mut running, &agent);
    let command = running.command();
    running.event("lost");
    assert!(is_alive(command));
    crate::support::send("USR1", command);
    assert_eq!(running.end().0, Some(3));
}

#[test]
fn an_outage_that_is_shorter_than_the_lease_costs_nothing() {
    let agent = Agent::start().expect("an agent");
    let prefix = "command/outage";
    let proxy = Proxy::start(agent.addr()).expect("a proxy");
    let arguments = [prefix, "--", "sh", "-c", "echo ready; sleep 4; exit 8"];
    let mut running = Running::start(&proxy.url(), &arguments);
    assert_eq!(running.line(), "ready");
    proxy.silence();
    running.event("started");
    // The test is about this length of silence.
    std::thread::sleep(Duration::from_secs(3));
    proxy.resume();
    let (code, events) = running.end();
    assert_eq!(code, Some(8), "{events:?}");
    agent.assert_nothing_left(prefix);
}
