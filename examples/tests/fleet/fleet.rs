//! `contend --mode fleet`: many semaphores in one process and in several, on separate agents with
//! their default limits. An agent allows 200 connections from one address.
//!
//! `SEMAPHORE_FLEET_HOLD_MS` sets how long they are held. The default is 15 s: a lease lasts 13.5
//! s, so a hold that can't be renewed is lost.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, process, thread};

use real_agent::Agent;
use serde_json::{Map, Value};

use crate::support::{Consul, Ran, run};

const CONTEND: &str = env!("CARGO_BIN_EXE_contend");
const BACKENDS: [&str; 3] = ["tokio", "threads", "smol"];

/// The default limit on a transport's connections.
const CEILING: u64 = 64;

/// The longest time in milliseconds until a waiter is served after its slot is free.
const SERVED_WITHIN: f64 = 10_000.0;

fn hold_ms() -> String {
    let told = env::var("SEMAPHORE_FLEET_HOLD_MS");
    told.unwrap_or_else(|_| "15000".to_owned())
}

/// Separates tests that each keep the whole machine busy.
fn alone() -> MutexGuard<'static, ()> {
    static BUSY: Mutex<()> = Mutex::new(());
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of a run.
struct Sailed {
    report: Map<String, Value>,
    ran: Ran,
}

/// Runs a fleet, after the commands in `within`, and returns its output however it ended.
#[track_caller]
fn sail_within(within: &[&str], consul: Consul<'_>, backend: &str, args: &str) -> Sailed {
    let own = ["--mode", "fleet", "--json", "--backend", backend];
    let all = [within, &[CONTEND], &own].concat();
    let all: Vec<_> = all.into_iter().chain(args.split(' ')).collect();
    let ran = run(all[0], consul, &all[1..]);
    let report = serde_json::from_str(&ran.stdout);
    let report = report.unwrap_or_else(|_| panic!("{args}: {}{}", ran.stdout, ran.stderr));
    Sailed { report, ran }
}

#[track_caller]
fn sail(consul: Consul<'_>, backend: &str, args: &str) -> Sailed {
    sail_within(&[], consul, backend, args)
}

/// Side by side: most of the time they wait.
fn on_each_backend(test: impl Fn(&'static str) + Sync) {
    thread::scope(|threads| {
        for backend in BACKENDS {
            let test = &test;
            threads.spawn(move || test(backend));
        }
    });
}

impl Sailed {
    fn count(&self, field: &str) -> u64 {
        let count = self.report[field].as_u64();
        count.unwrap_or_else(|| panic!("no count in {field}: {self}"))
    }

    fn number(&self, field: &str) -> f64 {
        let number = self.report[field].as_f64();
        number.unwrap_or_else(|| panic!("no number in {field}: {self}"))
    }

    #[track_caller]
    fn assert_kept(&self) {
        assert_eq!(self.count("lost"), 0, "{self}");
    }

    /// All were granted, kept and removed.
    #[track_caller]
    fn assert_well(&self, semaphores: u64) {
        self.assert_kept();
        assert_eq!(self.count("failed"), 0, "{self}");
        assert_eq!(self.count("granted"), semaphores, "{self}");
        assert_eq!(self.ran.code, Some(0), "{self}");
        assert_eq!(self.ran.stderr, "", "{self}");
    }

    /// A refused caller was told which resource was missing.
    #[track_caller]
    fn assert_reasons_name(&self, names: &[&str]) {
        let told = self.ran.stderr.to_lowercase();
        let is_named = names.iter().any(|name| told.contains(name));
        assert!(told.is_empty() || is_named, "{self}");
    }
}

impl std::fmt::Display for Sailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { stdout, stderr, .. } = &self.ran;
        write!(f, "{stdout}{stderr}")
    }
}

#[test]
fn a_report_of_a_fleet_has_every_field_and_no_other() {
    let fields = [
        "acquire_p50_ms",
        "acquire_p99_ms",
        "failed",
        "granted",
        "lost",
        "peak_connections",
        "renewals_per_s",
        "requests_per_s",
        "semaphores",
        "sessions",
        "threads",
    ];
    let turns = ["turn_p50_ms", "turn_p99_ms"];
    for (args, fields) in [
        (
            "--semaphores 3 --hold-ms 50 --transports shared",
            fields.to_vec(),
        ),
        (
            "--semaphores 3 --hold-ms 50 --transports shared --waiters 7",
            [&fields[..], &turns].concat(),
        ),
    ] {
        on_each_backend(|backend| {
            let sailed = sail(Consul::InMemory, backend, args);
            sailed.assert_well(3);
            let mut told: Vec<_> = sailed.report.keys().map(String::as_str).collect();
            told.sort_unstable();
            assert_eq!(told, fields);
            assert!(sailed.report.values().all(Value::is_number), "{sailed}");
            assert!(sailed.count("sessions") >= 3, "{sailed}");
        });
    }
}

#[test]
fn a_person_is_told_of_a_fleet_without_json() {
    let args = "--mode fleet --semaphores 3 --hold-ms 50 --waiters 1";
    let args: Vec<_> = args.split(' ').collect();
    let shown = run(CONTEND, Consul::InMemory, &args).success();
    let first = "semaphores      3: 3 granted, 0 lost; 0 acquisitions failed\n";
    assert!(shown.starts_with(first), "{shown}");
    assert!(shown.contains("\nturns after     median "), "{shown}");
}

#[test]
fn a_fleet_on_a_real_agent_leaves_nothing() {
    let agent = Agent::start().expect("an agent");
    on_each_backend(|backend| {
        for (transports, sessions) in [
            ("client", 1 + 2),
            ("shared", 4 + 2 * 2),
            ("each", 4 + 2 * 2),
        ] {
            let prefix = format!("fleet/{backend}/{transports}");
            let args = format!(
                "--semaphores 4 --waiters 2 --hold-ms 500 --transports {transports} --prefix {prefix}"
            );
            let sailed = sail(Consul::At(&agent.url()), backend, &args);
            sailed.assert_well(4);
            // A waiter wants both slots of its semaphore.
            assert_eq!(sailed.count("sessions"), sessions, "{sailed}");
        }
    });
    agent.assert_nothing_left("fleet");
    let below = agent
        .client()
        .get("/v1/kv/fleet/?recurse")
        .expect("an answer");
    assert_eq!(below.status, 404, "{}", below.text());
}

#[test]
fn two_hundred_and_fifty_semaphores_are_kept_and_fifty_behind_them_are_served() {
    assert_250_are_kept_and_50_served("tokio");
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn as_many_are_kept_and_served_on_each_backend_at_once() {
    let _alone = alone();
    on_each_backend(assert_250_are_kept_and_50_served);
}

#[track_caller]
fn assert_250_are_kept_and_50_served(backend: &str) {
    let agent = Agent::start().expect("an agent");
    let args = format!(
        "--semaphores 250 --waiters 50 --transports shared --hold-ms {}",
        hold_ms()
    );
    let sailed = sail(Consul::At(&agent.url()), backend, &args);
    sailed.assert_well(250);
    assert!(sailed.count("peak_connections") <= CEILING, "{sailed}");
    // With fifty values, the 99th percentile is the maximum.
    assert!(sailed.number("turn_p99_ms") <= SERVED_WITHIN, "{sailed}");
}

/// With the defaults: all belong to one client.
#[test]
fn a_thousand_semaphores_of_one_process_are_kept_by_one_session() {
    assert_1000_are_kept_by_one_session("tokio");
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn a_thousand_of_one_process_are_kept_by_one_session_on_each_backend() {
    let _alone = alone();
    on_each_backend(assert_1000_are_kept_by_one_session);
}

#[track_caller]
fn assert_1000_are_kept_by_one_session(backend: &str) {
    let agent = Agent::start().expect("an agent");
    let args = format!("--semaphores 1000 --hold-ms {}", hold_ms());
    let sailed = sail(Consul::At(&agent.url()), backend, &args);
    sailed.assert_well(1000);
    assert_eq!(sailed.count("sessions"), 1, "{sailed}");
    assert!(sailed.count("peak_connections") <= CEILING, "{sailed}");
    // After the last admission each reads its record once more, since those that still acquire go
    // first.
    let looks = 1e6 / hold_ms().parse::<f64>().expect("milliseconds");
    assert!(sailed.number("requests_per_s") <= 25.0 + looks, "{sailed}");
    agent.assert_nothing_left("fleet");
}

/// With one process for each backend, all on one agent.
#[test]
#[ignore = "long: scripts/nightly runs it"]
fn what_two_hundred_and_fifty_transports_were_granted_is_kept() {
    let agent = Agent::start().expect("an agent");
    let granted = AtomicU64::new(0);
    on_each_backend(|backend| {
        let semaphores = if backend == "tokio" { 84 } else { 83 };
        let args = format!(
            "--semaphores {semaphores} --transports each --timeout-s 10 --prefix fleet/{backend} \
             --hold-ms {}",
            hold_ms()
        );
        let sailed = sail(Consul::At(&agent.url()), backend, &args);
        sailed.assert_kept();
        sailed.assert_reasons_name(&["connections", "http_max_conns_per_client"]);
        granted.fetch_add(sailed.count("granted"), Ordering::SeqCst);
    });
    // A quarter of the connections that the agent allows.
    let granted = granted.into_inner();
    assert!(granted >= 50, "{granted}");
}

/// A third of them use each backend.
#[test]
#[ignore = "long: scripts/nightly runs it"]
fn fifty_processes_with_five_semaphores_each_keep_all_of_them() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    thread::scope(|processes| {
        for (number, backend) in BACKENDS.into_iter().cycle().take(50).enumerate() {
            let url = &url;
            processes.spawn(move || {
                let hold = hold_ms();
                let args = format!(
                    "--semaphores 5 --transports shared --prefix fleet/{number:02} --hold-ms {hold}"
                );
                sail(Consul::At(url), backend, &args).assert_well(5);
            });
        }
    });
    agent.assert_nothing_left("fleet");
}

#[test]
fn twenty_semaphores_are_kept_with_twenty_eight_descriptors() {
    on_each_backend(|backend| {
        let agent = Agent::start().expect("an agent");
        let args = format!(
            "--semaphores 20 --transports shared --hold-ms {}",
            hold_ms()
        );
        let limited = ["sh", "-c", r#"ulimit -n 28 && exec "$0" "$@""#];
        let sailed = sail_within(&limited, Consul::At(&agent.url()), backend, &args);
        sailed.assert_reasons_name(&["descriptor", "open files"]);
        sailed.assert_well(20);
    });
}

#[test]
fn what_twenty_semaphores_were_granted_with_thirty_threads_is_kept() {
    assert_binds();
    let limited = thirty_threads(1);
    let agent = Agent::start().expect("an agent");
    let args = format!(
        "--semaphores 20 --transports shared --hold-ms {}",
        hold_ms()
    );
    let limited = ["sh", "-c", &limited];
    let sailed = sail_within(&limited, Consul::At(&agent.url()), "threads", &args);
    sailed.assert_kept();
    sailed.assert_reasons_name(&["thread"]);
    assert!(sailed.count("granted") >= 5, "{sailed}");
    assert!(sailed.count("threads") <= 30, "{sailed}");
}

/// A script that runs a command with this limit. The system counts the threads of a user. So root
/// has to become another user, and other users run in a user namespace, where counting starts at
/// zero. The other user may still read what root may: the program may be in a folder of root's.
fn thirty_threads(number: u32) -> String {
    let user = 1_000_000 + 10 * process::id() + number;
    format!(
        r#"if [ "$(id -u)" = 0 ]
        then exec setpriv --reuid={user} --clear-groups --inh-caps=+dac_override \
            --ambient-caps=+dac_override prlimit --nproc=30 "$0" "$@"
        else exec unshare --user prlimit --nproc=30 "$0" "$@"
        fi"#
    )
}

/// There thirty more threads can't be started.
#[track_caller]
fn assert_binds() {
    let started = Command::new("sh")
        .args(["-c", &thirty_threads(0), "sh", "-c"])
        .arg("for i in $(seq 30); do sleep 1 & done; wait")
        .output()
        .expect("it starts");
    assert!(!started.status.success(), "no limit: {started:?}");
}

/// As in root's home, or below a folder of `mktemp -d`.
#[test]
fn a_program_in_a_folder_that_other_users_may_not_enter_runs_with_thirty_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("a program");
    fs::write(&program, "#!/bin/sh\necho \"$1\"\n").expect("written");
    for path in [folder.path(), &program] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o700)).expect("private");
    }
    let ran = Command::new("sh")
        .args(["-c", &thirty_threads(2)])
        .args([program.as_os_str(), "an argument".as_ref()])
        .output()
        .expect("it starts");
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(ran.stdout, b"an argument\n");
}

/// The turns per second of this many handles of one process, one turn each.
#[track_caller]
fn turns_per_second(agent: &Agent, backend: &str, handles: u32) -> f64 {
    let args = format!(
        "--mode contend --transports shared --participants {handles} --contenders {handles} \
         --limit 3 --hold-ms 10 --timeout-s 300 --json --backend {backend}"
    );
    let args: Vec<_> = args.split_whitespace().collect();
    let shown = run(CONTEND, Consul::At(&agent.url()), &args).success();
    let report: Map<String, Value> = serde_json::from_str(&shown).expect("one JSON object");
    assert_eq!(report["acquisitions"], handles, "{shown}");
    report["acquisitions_per_s"].as_f64().expect("a number")
}

/// `shared_connections.rs` of the core shows on virtual time that they are served at four fifths of
/// the rate of half as many. Here the rate depends on the machine's load. If a round trip takes a
/// tenth of a second, 150 turns take three quarters of a minute, however many wait.
#[test]
#[ignore = "long: scripts/nightly runs it"]
fn three_hundred_handles_that_wait_are_all_served() {
    let _alone = alone();
    for backend in BACKENDS {
        let agent = Agent::start().expect("an agent");
        let few = turns_per_second(&agent, backend, 150);
        let many = turns_per_second(&agent, backend, 300);
        println!("{backend}: {few:.0} turns a second with 150 handles, {many:.0} with 300");
    }
}
