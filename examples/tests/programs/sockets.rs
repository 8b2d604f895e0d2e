//! Every program on an agent that listens on a Unix socket.

use crate::support::{Consul, Running, run};
use real_agent::Agent;

const BACKENDS: [&str; 3] = ["tokio", "threads", "smol"];

fn agent() -> Agent {
    Agent::builder().socket().start().expect("an agent")
}

#[test]
fn contend_runs_on_a_socket_on_each_backend() {
    let agent = agent();
    let url = agent.socket_url();
    for backend in BACKENDS {
        let args = "--contenders 4 --hold-ms 10 --rounds 3 --json --backend";
        let args: Vec<_> = args.split(' ').chain([backend]).collect();
        let shown = run(env!("CARGO_BIN_EXE_contend"), Consul::At(&url), &args).success();
        let report: serde_json::Value = serde_json::from_str(&shown).expect("one JSON object");
        assert_eq!(report["acquisitions"], 12, "{shown}");
        assert_eq!(report["errors"], 0, "{shown}");
    }
    agent.assert_nothing_left("examples/contend");
}

#[test]
fn leader_and_discover_run_on_a_socket() {
    let agent = agent();
    let url = agent.socket_url();
    let discover = env!("CARGO_BIN_EXE_discover");
    let mut follower = Running::start(discover, Consul::At(&url), &[]);
    assert!(follower.line().ends_with(&format!("the agent at {url}")));
    assert_eq!(follower.line(), "nobody leads");
    for backend in BACKENDS {
        let args = ["--hold-ms", "300", "--value", backend, "--backend", backend];
        let shown = run(env!("CARGO_BIN_EXE_leader"), Consul::At(&url), &args).success();
        assert!(shown.contains("leads in term "), "{shown}");
        let leads = follower.line();
        assert!(leads.starts_with(&format!("{backend:?} leads from node ")));
        assert_eq!(follower.line(), "nobody leads");
    }
    follower.interrupt();
    assert!(agent.client().sessions().expect("an answer").is_empty());
}

#[test]
fn the_short_programs_run_on_a_socket() {
    let agent = agent();
    let url = agent.socket_url();
    for program in [
        env!("CARGO_BIN_EXE_on_tokio"),
        env!("CARGO_BIN_EXE_on_threads"),
        env!("CARGO_BIN_EXE_on_smol"),
        env!("CARGO_BIN_EXE_by_hand"),
        env!("CARGO_BIN_EXE_resource"),
    ] {
        run(program, Consul::At(&url), &[]).success();
    }
    assert!(agent.client().sessions().expect("an answer").is_empty());
}
