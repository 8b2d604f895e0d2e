//! Each short program runs to its end, on the Consul in memory and on a real agent.

use crate::support::{Consul, run};
use real_agent::Agent;

#[track_caller]
fn runs(path: &str, prefix: &str, last_line_ends_with: &str) {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    for consul in [Consul::InMemory, Consul::At(&url)] {
        let shown = run(path, consul, &[]).success();
        let last = shown.lines().last().unwrap_or_default();
        assert!(last.ends_with(last_line_ends_with), "{shown}");
        assert!(!shown.contains("impossible"), "{shown}");
    }
    agent.assert_nothing_left(prefix);
}

#[test]
fn on_tokio_runs_to_its_end() {
    runs(
        env!("CARGO_BIN_EXE_on_tokio"),
        "examples/on-tokio",
        "nothing is left",
    );
}

#[test]
fn on_smol_runs_to_its_end() {
    runs(
        env!("CARGO_BIN_EXE_on_smol"),
        "examples/on-smol",
        "nothing is left",
    );
}

#[test]
fn on_threads_runs_to_its_end() {
    runs(
        env!("CARGO_BIN_EXE_on_threads"),
        "examples/on-threads",
        "nothing is left",
    );
}

#[test]
fn guide_runs_to_its_end() {
    runs(
        env!("CARGO_BIN_EXE_guide"),
        "examples/guide",
        "nothing is left",
    );
}

#[test]
fn by_hand_runs_to_its_end() {
    runs(
        env!("CARGO_BIN_EXE_by_hand"),
        "examples/by-hand",
        "released",
    );
}

#[test]
fn testing_needs_no_agent() {
    let shown = run(env!("CARGO_BIN_EXE_testing"), Consul::InMemory, &[]).success();
    assert!(shown.contains("stopped in minute"), "{shown}");
}
