//! `quickstart` on every backend, on the Consul in memory and on a real agent.

use crate::support::{Consul, run};
use real_agent::Agent;

const QUICKSTART: &str = env!("CARGO_BIN_EXE_quickstart");

#[track_caller]
fn keeps_the_limit(consul: Consul<'_>, backend: &str) {
    let args = ["--backend", backend, "--hold-ms", "300"];
    let shown = run(QUICKSTART, consul, &args).success();
    assert_eq!(shown.lines().last(), Some("max concurrent: 3 of 3"));
    for number in 1..=15 {
        let rows = shown
            .lines()
            .filter(|line| line.starts_with(&format!("node-{number:02} ")));
        assert_eq!(rows.count(), 1, "{shown}");
    }
    let counts = shown.lines().find(|line| line.starts_with("at once"));
    let counts = counts
        .and_then(|line| line.split(' ').next_back())
        .expect("a row of counts");
    assert!(
        counts.chars().all(|count| ('0'..='3').contains(&count)),
        "{shown}"
    );
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
}

#[track_caller]
fn keeps_the_limit_on_a_real_agent(backend: &str) {
    let agent = Agent::start().expect("an agent");
    keeps_the_limit(Consul::At(&agent.url()), backend);
    agent.assert_nothing_left("examples/quickstart");
}

#[test]
fn three_hold_at_once_on_tokio() {
    keeps_the_limit(Consul::InMemory, "tokio");
}

#[test]
fn three_hold_at_once_on_threads() {
    keeps_the_limit(Consul::InMemory, "threads");
}

#[test]
fn three_hold_at_once_on_smol() {
    keeps_the_limit(Consul::InMemory, "smol");
}

#[test]
fn three_hold_at_once_on_tokio_on_a_real_agent() {
    keeps_the_limit_on_a_real_agent("tokio");
}

#[test]
fn three_hold_at_once_on_threads_on_a_real_agent() {
    keeps_the_limit_on_a_real_agent("threads");
}

#[test]
fn three_hold_at_once_on_smol_on_a_real_agent() {
    keeps_the_limit_on_a_real_agent("smol");
}

#[test]
fn fewer_contenders_than_slots_all_hold_at_once() {
    let args = ["--contenders", "2", "--limit", "5", "--hold-ms", "2000"];
    let shown = run(QUICKSTART, Consul::InMemory, &args).success();
    assert_eq!(shown.lines().last(), Some("max concurrent: 2 of 5"));
}

#[test]
fn a_limit_that_others_have_set_is_a_conflict() {
    let agent = Agent::start().expect("an agent");
    let record = br#"{"Limit":7,"Holders":{}}"#;
    let key = "/v1/kv/examples/quickstart/.lock?flags=16210313421097356768";
    agent.client().put(key, record).expect("a record");
    let url = agent.url();
    let ran = run(QUICKSTART, Consul::At(&url), &["--hold-ms", "10"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("the limit is 3 here"), "{}", ran.stderr);
    agent.assert_nothing_left("examples/quickstart");
}
