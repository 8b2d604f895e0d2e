//! `resource`, `discover` and `one_leader`, on the Consul in memory and on a real agent.

use std::process::Command;

use crate::support::{Consul, Running, run};
use real_agent::Agent;

const RESOURCE: &str = env!("CARGO_BIN_EXE_resource");
const DISCOVER: &str = env!("CARGO_BIN_EXE_discover");
const ONE_LEADER: &str = env!("CARGO_BIN_EXE_one_leader");

/// The last output of a service.
const LEFT: &str = "nothing is left but the key";

#[test]
fn the_resource_serves_the_leader_and_refuses_who_led_before() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    for consul in [Consul::InMemory, Consul::At(&url)] {
        let shown = run(RESOURCE, consul, &[]).success();
        let lines: Vec<_> = shown.lines().collect();
        let [first, done, second, late, newer, over, written] = lines[..] else {
            panic!("{shown}");
        };
        assert!(first.starts_with("node-1 leads: "), "{shown}");
        assert_eq!(done, "node-1 writes: done");
        assert!(second.starts_with("node-2 leads: "), "{shown}");
        let refused = "writes: refused, somebody else may lead by now";
        assert_eq!(late, format!("node-1 {refused}"));
        assert_eq!(newer, "node-2 writes: done");
        assert_eq!(over, format!("node-2 {refused}"));
        assert_eq!(written, "written: by node-1, by node-2");
    }
    // The key stays, and no session holds it.
    assert!(agent.client().sessions().expect("an answer").is_empty());
}

#[test]
fn discover_prints_each_change() {
    let shown = run(DISCOVER, Consul::InMemory, &["--changes", "6"]).success();
    let lines: Vec<_> = shown.lines().collect();
    let [head, nobody, first, moved, over, second, moved_too] = lines[..] else {
        panic!("{shown}");
    };
    assert_eq!(
        head,
        "following examples/discover/leader on a Consul in memory"
    );
    assert_eq!((nobody, over), ("nobody leads", "nobody leads"));
    assert!(first.starts_with("\"node-1\" leads from node "), "{shown}");
    assert!(first.contains("TTL 15s"), "{shown}");
    assert_eq!(moved, "it says \"node-1, moved\" now");
    assert!(second.starts_with("\"node-2\" leads from node "), "{shown}");
    assert_eq!(moved_too, "it says \"node-2, moved\" now");
}

#[test]
fn discover_follows_consul_lock_on_a_real_agent_and_leaves_cleanly() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    let key = "examples/discover/.lock";
    let mut follower = Running::start(DISCOVER, Consul::At(&url), &[key]);
    let head = follower.line();
    assert!(head.starts_with("following examples/discover/.lock on "));
    assert_eq!(follower.line(), "nobody leads");
    let locked = Command::new(agent.binary())
        .args(["lock", "-http-addr", &url, "examples/discover", "sleep 0.3"])
        .output()
        .expect("it runs");
    assert!(locked.status.success(), "{locked:?}");
    let leads = follower.line();
    assert!(leads.contains(" leads from node "), "{leads}");
    assert_eq!(follower.line(), "nobody leads");
    // The key is deleted, so nobody leads.
    let rest = follower.interrupt();
    assert_eq!(
        rest.last().map(String::as_str),
        Some("interrupted"),
        "{rest:?}"
    );
}

#[test]
fn of_two_services_the_second_leads_when_the_first_is_terminated() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    let start = || {
        let mut service = Running::start(ONE_LEADER, Consul::At(&url), &[]);
        assert_eq!(service.line(), "campaigns; ^C ends it");
        service
    };
    let token = |line: String| -> u64 {
        let token = line.strip_prefix("leads, with token ").expect("a leader");
        token.parse().expect("a number")
    };
    let mut first = start();
    let led = token(first.line());
    let mut second = start();
    assert_eq!(token(first.line()), led, "it leads on");
    let rest = first.terminate();
    assert_eq!(rest.last().map(String::as_str), Some(LEFT), "{rest:?}");
    assert!(token(second.line()) > led);
    let rest = second.interrupt();
    assert_eq!(rest.last().map(String::as_str), Some(LEFT), "{rest:?}");
    assert!(agent.client().sessions().expect("an answer").is_empty());
}

#[test]
fn a_service_alone_leads_a_consul_in_memory() {
    let mut service = Running::start(ONE_LEADER, Consul::InMemory, &[]);
    service.line();
    assert!(service.line().starts_with("leads, with token "));
    let rest = service.terminate();
    assert_eq!(rest.last().map(String::as_str), Some(LEFT), "{rest:?}");
}
