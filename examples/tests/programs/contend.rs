//! `contend` and its measurements, on the Consul in memory and on a real agent.

use std::time::UNIX_EPOCH;

use crate::support::{Consul, Running, run, run_with};
use real_agent::Agent;
use serde_json::{Map, Value};

const CONTEND: &str = env!("CARGO_BIN_EXE_contend");
const PREFIX: &str = "examples/contend";

#[track_caller]
fn measured(consul: Consul<'_>, args: &str) -> Map<String, Value> {
    measured_with(consul, &args.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn measured_with(consul: Consul<'_>, args: &[&str]) -> Map<String, Value> {
    let shown = run(CONTEND, consul, &[args, &["--json"]].concat()).success();
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
fn is_served(report: &Map<String, Value>, acquisitions: u64, limit: u64) {
    assert_eq!(report["acquisitions"], acquisitions, "{report:?}");
    // Whether short holds ever reach the limit depends on the machine's speed.
    let held = report["max_held"].as_u64().expect("a count");
    assert!((1..=limit).contains(&held), "{report:?}");
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
            "bare_turn_p50_us",
            "bytes_down_per_acquisition",
            "bytes_up_per_acquisition",
            "cycle_p50_us",
            "cycle_p99_us",
            "errors",
            "hold_mean_ms",
            "http_requests",
            "http_requests_per_acquisition",
            "ideal_per_s",
            "kv_reads",
            "kv_watches",
            "kv_writes",
            "lost",
            "max_held",
            "other_requests",
            "peak_connections",
            "put_p50_us",
            "raft_writes",
            "raft_writes_per_acquisition",
            "release_p50_ms",
            "served_out_of_order",
            "session_creates",
            "session_destroys",
            "session_reads",
            "session_renews",
            "total_ms",
            "txns",
            "wait_max_ms",
            "wait_p50_ms",
            "wait_p99_ms",
        ]
    );
    assert!(report.values().all(Value::is_number), "{report:?}");
    assert_eq!(report["ideal_per_s"], 600.0);
    // Fewer than there are slots.
    let report = measured(
        Consul::InMemory,
        "--contenders 2 --limit 100 --hold-ms 5 --value-bytes 4000",
    );
    assert_eq!(report["ideal_per_s"], 400.0);
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
fn the_second_semaphore_of_a_process_makes_no_session() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!(
            "--backend {backend} --mode cycle --cold --transports client --warm-up 1 --rounds 5"
        );
        let report = measured_on_a_real_agent(&args);
        is_served(&report, 5, 1);
        assert_eq!(report["session_creates"], 0, "{report:?}");
        assert_eq!(report["session_destroys"], 0, "{report:?}");
    }
}

#[test]
fn a_semaphore_that_is_built_for_each_turn_takes_turns_with_the_others() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!(
            "--backend {backend} --cold --transports client --participants 1 --contenders 20 --rounds 3 --hold-ms 1"
        );
        is_served(&measured_on_a_real_agent(&args), 60, 3);
    }
}

#[test]
fn several_slots_are_taken_at_once() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!(
            "--backend {backend} --contenders 4 --slots 3 --limit 7 --hold-ms 200 --rounds 2"
        );
        let report = measured(Consul::InMemory, &args);
        is_served(&report, 8, 2);
        assert_eq!(report["ideal_per_s"], 10.0, "{report:?}");
    }
}

#[test]
fn requests_by_kind_add_up_to_all_of_them() {
    let report = measured(Consul::InMemory, "--mode cycle --cold --rounds 5");
    let kinds = [
        "session_creates",
        "session_renews",
        "session_destroys",
        "session_reads",
        "kv_reads",
        "kv_watches",
        "kv_writes",
        "txns",
        "other_requests",
    ];
    let sum: Option<u64> = kinds.iter().map(|kind| report[*kind].as_u64()).sum();
    assert_eq!(sum, report["http_requests"].as_u64(), "{report:?}");
    // Each created a session and ended it, besides its writes of keys.
    assert_eq!(report["session_creates"], 5);
    assert_eq!(report["session_destroys"], 5);
    assert!(report["raft_writes"].as_u64() > Some(10), "{report:?}");
}

#[test]
fn what_comes_before_the_measured_rounds_is_not_counted() {
    for mode in ["cycle", "cycle --cold", "contend"] {
        let run = |warm_up| {
            let args = format!("--mode {mode} --warm-up {warm_up} --contenders 2 --rounds 3");
            measured(Consul::InMemory, &args)
        };
        let report = run(4);
        assert_eq!(report["acquisitions"], 6, "{mode}: {report:?}");
        let most = run(0)["http_requests"].as_u64().map(|cold| 2 * cold);
        assert!(
            report["http_requests"].as_u64() <= most,
            "{mode}: {report:?}"
        );
    }
}

#[test]
fn of_a_long_hold_only_what_keeps_it_is_counted() {
    let report = measured_on_a_real_agent("--mode hold --hold-ms 6000");
    is_served(&report, 1, 1);
    assert_eq!(report["raft_writes"], 0, "{report:?}");
    assert_eq!(report["session_creates"], 0, "{report:?}");
    let count = |kind: &str| report[kind].as_u64().expect("a count");
    let renewals = count("session_renews");
    let proofs = count("http_requests") - renewals - count("kv_watches");
    assert!(
        proofs.abs_diff(renewals) <= 1,
        "a proof for each: {report:?}"
    );
    // One after each sixteenth to twelfth of 15 s, on a machine that may be busy.
    assert!((3..=7).contains(&renewals), "{report:?}");
}

#[test]
fn a_hold_lasts_no_shorter_than_it_was_told_to() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!("--backend {backend} --contenders 3 --hold-ms 20");
        let report = measured(Consul::InMemory, &args);
        assert!(report["hold_mean_ms"].as_f64() >= Some(20.0), "{report:?}");
    }
}

#[test]
fn holds_are_written_down_one_line_for_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("the holds");
    let file = file.to_str().expect("text");
    let args = ["--contenders", "4", "--hold-ms", "5", "--holds", file];
    measured_with(Consul::InMemory, &args);
    let lines = std::fs::read_to_string(file).expect("text");
    assert_eq!(lines.lines().count(), 4, "{lines}");
}

#[test]
fn a_long_hold_tells_when_it_began_and_ended_by_the_machines_clock() {
    let before = UNIX_EPOCH.elapsed().expect("a clock").as_secs_f64();
    for backend in ["tokio", "threads", "smol"] {
        let args = format!("--backend {backend} --mode hold --hold-ms 200 --ttl 20");
        let report = measured(Consul::InMemory, &args);
        let moment = |field: &str| report[field].as_f64().expect("a number");
        let held = moment("not_held_any_more_at") - moment("granted_at");
        assert!(before < moment("granted_at"), "{report:?}");
        assert!((0.15..60.0).contains(&held), "{report:?}");
        let args: Vec<_> = args.split(' ').collect();
        let shown = run(CONTEND, Consul::InMemory, &args).success();
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[0].starts_with("granted at "), "{shown}");
        assert!(lines[1].starts_with("not held any more at "), "{shown}");
    }
}

#[test]
fn only_one_holds_once_in_mode_hold() {
    for args in [["--contenders", "2"], ["--rounds", "2"]] {
        let args = [&["--mode", "hold"][..], &args].concat();
        run(CONTEND, Consul::InMemory, &args).assert_refused(2, "one holds once");
    }
}

#[test]
fn contenders_come_back_for_another_round() {
    let args = "--contenders 6 --rounds 3 --participants 2 --limit 2 --hold-ms 200";
    is_served(&measured(Consul::InMemory, args), 18, 2);
}

#[test]
fn every_slot_of_a_real_agent_is_taken() {
    for backend in ["tokio", "threads", "smol"] {
        let args = format!("--backend {backend} --contenders 4 --limit 3 --hold-ms 1000");
        let report = measured_on_a_real_agent(&args);
        is_served(&report, 4, 3);
        assert_eq!(report["max_held"], 3, "{report:?}");
    }
}

#[test]
fn a_hundred_share_three_slots_of_a_real_agent_on_tokio() {
    let args = "--mode contend --contenders 100 --limit 3 --hold-ms 50";
    is_served(&measured_on_a_real_agent(args), 100, 3);
}

#[test]
fn a_hundred_share_three_slots_of_a_real_agent_on_threads() {
    let args = "--backend threads --mode contend --contenders 100 --limit 3 --hold-ms 50";
    is_served(&measured_on_a_real_agent(args), 100, 3);
}

#[test]
fn a_hundred_share_three_slots_of_a_real_agent_on_smol() {
    let args = "--backend smol --mode contend --contenders 100 --limit 3 --hold-ms 50";
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

#[test]
fn whoever_reads_one_line_and_no_more_ends_nothing_before_its_time() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    for args in [
        ["--mode", "hold", "--hold-ms", "500"],
        ["--contenders", "3", "--hold-ms", "5"],
    ] {
        let ended = Running::start(CONTEND, Consul::At(&url), &args).hang_up();
        assert!(ended.success(), "{ended}");
        agent.assert_nothing_left(PREFIX);
    }
}

#[test]
fn a_namespace_is_named_where_the_agent_has_none() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    for args in [vec![], vec!["--mode", "hold"], vec!["--mode", "fleet"]] {
        let variables = [("CONSUL_NAMESPACE", "team")];
        let ran = run_with(CONTEND, Consul::At(&url), &variables, &args);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("namespace \"team\""), "{}", ran.stderr);
    }
}
