//! `contend`: what it measures, on the Consul in memory and on a real agent.

use crate::support::{Consul, run};
use real_agent::Agent;
use serde_json::{Map, Value};

const CONTEND: &str = env!("CARGO_BIN_EXE_contend");
const PREFIX: &str = "examples/contend";

#[track_caller]
fn measured(consul: Consul<'_>, args: &str) -> Map<String, Value> {
    let args: Vec<_> = args.split(' ').chain(["--json"]).collect();
    let shown = run(CONTEND, consul, &args).success();
    serde_json::from_str(&shown).expect("one JSON object")
}

#[track_caller]
fn measured_on_a_real_agent(args: &str) -> Map<String, Value> {
    let agent = Agent::start().expect("an agent");
    let report = measured(Consul::At(&agent.url()), args);
    agent.assert_nothing_left(PREFIX);
    let below = agent
        .client()
        .get("/v1/kv/examples/?recurse")
        .expect("an answer");
    assert_eq!(below.status, 404, "{}", below.text());
    report
}

#[track_caller]
fn is_served(report: &Map<String, Value>, acquisitions: u64, max_held: u64) {
    assert_eq!(report["acquisitions"], acquisitions, "{report:?}");
    assert_eq!(report["max_held"], max_held, "{report:?}");
    assert_eq!(report["errors"], 0, "{report:?}");
    let peak = report["peak_connections"].as_u64().expect("a count");
    assert!((1..=200).contains(&peak), "{report:?}");
}

#[test]
fn a_report_has_every_field_and_no_other() {
    let report = measured(Consul::InMemory, "--contenders 6 --hold-ms 5");
    let mut fields: Vec<_> = report.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "acquisitions",
            "acquisitions_per_s",
            "bytes_down_per_acquisition",
            "cycle_p50_us",
            "cycle_p99_us",
            "errors",
            "http_requests",
            "http_requests_per_acquisition",
            "ideal_per_s",
            "max_held",
            "peak_connections",
            "put_p50_us",
            "total_ms",
            "wait_max_ms",
            "wait_p50_ms",
            "wait_p99_ms",
        ]
    );
    assert!(report.values().all(Value::is_number), "{report:?}");
    assert_eq!(report["ideal_per_s"], 600.0);
}

#[test]
fn a_person_is_told_without_json() {
    let shown = run(CONTEND, Consul::InMemory, &["--hold-ms", "500"]).success();
    assert!(shown.starts_with("acquisitions    15 in "), "{shown}");
    assert!(shown.contains("\nheld at once    3\n"), "{shown}");
}

#[test]
fn a_cycle_waits_for_nobody() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!("--backend {backend} --mode cycle --rounds 5 --contenders 2");
        is_served(&measured(Consul::InMemory, &args), 10, 1);
    }
}

#[test]
fn a_cold_cycle_makes_a_session_each_time() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!("--backend {backend} --mode cycle --cold --rounds 5");
        is_served(&measured(Consul::InMemory, &args), 5, 1);
    }
}

#[test]
fn contenders_come_back_for_another_round() {
    let args = "--contenders 6 --rounds 3 --participants 2 --limit 2 --hold-ms 200";
    is_served(&measured(Consul::InMemory, args), 18, 2);
}

#[test]
fn a_hundred_share_three_slots_of_a_real_agent_on_tokio() {
    let args = "--mode contend --contenders 100 --limit 3 --hold-ms 10";
    is_served(&measured_on_a_real_agent(args), 100, 3);
}

#[test]
fn a_hundred_share_three_slots_of_a_real_agent_on_threads() {
    let args = "--backend threads --mode contend --contenders 100 --limit 3 --hold-ms 10";
    is_served(&measured_on_a_real_agent(args), 100, 3);
}

#[test]
fn a_hundred_share_three_slots_of_a_real_agent_on_smol() {
    let args = "--backend smol --mode contend --contenders 100 --limit 3 --hold-ms 10";
    is_served(&measured_on_a_real_agent(args), 100, 3);
}

#[test]
fn five_hundred_share_three_slots_at_the_default_limits_of_a_real_agent() {
    let args = "--mode contend --contenders 500 --limit 3 --hold-ms 10";
    is_served(&measured_on_a_real_agent(args), 500, 3);
}

#[test]
fn a_cycle_on_a_real_agent_leaves_nothing() {
    is_served(&measured_on_a_real_agent("--mode cycle --rounds 10"), 10, 1);
    is_served(
        &measured_on_a_real_agent("--mode cycle --cold --rounds 10"),
        10,
        1,
    );
}
