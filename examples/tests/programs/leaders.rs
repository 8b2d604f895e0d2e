//! `resource` and `discover`, on the Consul in memory and on a real agent.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::{Consul, run};
use real_agent::Agent;

const RESOURCE: &str = env!("CARGO_BIN_EXE_resource");
const DISCOVER: &str = env!("CARGO_BIN_EXE_discover");

/// Ends with the test, whatever happens to it.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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
    // The key stays, and nobody's session holds it.
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
    let mut follower = Command::new(DISCOVER)
        .arg("examples/discover/.lock")
        .env("CONSUL_HTTP_ADDR", &url)
        .stdout(Stdio::piped())
        .spawn()
        .map(Follower)
        .expect("the program starts");
    let stdout = follower.0.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(stdout)
        .lines()
        .map(|line| line.expect("text"));
    let mut line = || lines.next().expect("a line");
    assert!(line().starts_with("following examples/discover/.lock on "));
    assert_eq!(line(), "nobody leads");
    let locked = Command::new(agent.binary())
        .args(["lock", "-http-addr", &url, "examples/discover", "sleep 0.3"])
        .output()
        .expect("it runs");
    assert!(locked.status.success(), "{locked:?}");
    let leads = line();
    assert!(leads.contains(" leads from node "), "{leads}");
    assert_eq!(line(), "nobody leads");
    let interrupted = Command::new("kill")
        .args(["-INT", &follower.0.id().to_string()])
        .status();
    assert!(interrupted.expect("it runs").success());
    let mut rest: Vec<_> = lines.collect();
    assert_eq!(rest.pop().as_deref(), Some("interrupted"), "{rest:?}");
    assert!(follower.0.wait().expect("an end").success());
}
