//! The program, run as a user runs it.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use real_agent::Agent;

/// The result of a run.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// With no variable of Consul except the address.
fn run(address: Option<&str>, args: &[&str]) -> Ran {
    run_with(address, &[], args)
}

/// The same with more variables.
fn run_with(address: Option<&str>, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CONSUL_") {
            command.env_remove(name);
        }
    }
    if let Some(address) = address {
        command.env("CONSUL_HTTP_ADDR", address);
    }
    command.envs(variables.iter().copied()).args(args);
    let output = command.output().expect("the program starts");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

impl Ran {
    /// Its output. It must have ended without a failure.
    #[track_caller]
    fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stderr, "");
        self.stdout
    }

    /// It must have ended with `code`, and printed only `text`.
    #[track_caller]
    fn assert_refused(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(text), "{}", self.stderr);
        assert_eq!(self.stdout, "");
    }
}

#[track_caller]
fn keeps_the_limit(shown: &str) {
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
    // The address may be the path of a socket, which may have any length.
    let mut others = shown.lines().filter(|line| !line.contains("the agent at"));
    assert!(others.all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn three_hold_at_once_in_memory_whatever_the_seed() {
    for seed in 1..=20 {
        keeps_the_limit(&run(None, &["--seed", &seed.to_string()]).success());
    }
}

#[test]
fn one_that_is_cut_off_loses_its_slot_and_stops() {
    let shown = run(None, &[]).success();
    let line = |told: &str| {
        let mut lines = shown.lines().filter(|line| line.contains(told));
        lines.next().expect("a line").to_owned()
    };
    let cut_off = line(" is cut off from Consul");
    let lost = line(" has lost it, and stops");
    let name = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    assert_eq!(name(&cut_off), name(&lost));
    assert!(line("█×").starts_with(&name(&lost).expect("a name")));
}

#[test]
fn a_seed_decides_everything_in_memory() {
    let shown = || run(None, &["--seed", "7"]).success();
    assert_eq!(shown(), shown());
}

/// To update it, run `cargo run -p quickstart -- --svg docs/quickstart.svg`.
#[test]
fn the_picture_of_the_readme_is_what_the_program_draws() {
    let folder = tempfile::tempdir().expect("a folder");
    let drawn = folder.path().join("drawn.svg");
    run(None, &["--svg", drawn.to_str().expect("text")]).success();
    let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/quickstart.svg");
    let read = |path: &Path| fs::read_to_string(path).expect("a picture");
    assert_eq!(read(&drawn), read(&shown));
}

#[test]
fn a_picture_that_cant_be_written_is_told() {
    let ran = run(
        None,
        &["--contenders", "1", "--svg", "/no/such/folder/a.svg"],
    );
    assert_eq!(ran.code, Some(1));
    let told = "error: /no/such/folder/a.svg can't be written: ";
    assert!(ran.stderr.starts_with(told), "{}", ran.stderr);
}

#[test]
fn three_hold_at_once_on_a_real_agent() {
    let agent = Agent::start().expect("an agent");
    let shown = run(Some(&agent.url()), &["--hold-ms", "300"]).success();
    keeps_the_limit(&shown);
    agent.assert_nothing_left("examples/quickstart");
}

#[test]
fn three_hold_at_once_on_an_agent_with_acls_by_the_environment_alone() {
    let agent = Agent::builder().acl("5f0d1b8e-6a3c-4a51-9a70-27d0c2b8f444");
    let agent = agent.start().expect("an agent");
    let rules = r#"
        key_prefix "examples/quickstart/" { policy = "write" }
        session_prefix "" { policy = "write" }
    "#;
    let token = agent.client().create_token("quickstart", rules);
    let token = token.expect("a token");
    let (url, arguments) = (agent.url(), ["--hold-ms", "100"]);
    let with_token = [("CONSUL_HTTP_TOKEN", token.as_str())];
    keeps_the_limit(&run_with(Some(&url), &with_token, &arguments).success());
    let refused = run(Some(&url), &arguments);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    let told = "no token was given, and without one lacks the permission";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    agent.assert_nothing_left("examples/quickstart");
}

#[test]
fn three_hold_at_once_on_the_socket_of_an_agent() {
    let agent = Agent::builder().socket().start().expect("an agent");
    let url = agent.socket_url();
    let shown = run(Some(&url), &["--hold-ms", "200"]).success();
    keeps_the_limit(&shown);
    assert!(shown.contains(&url), "{shown}");
    agent.assert_nothing_left("examples/quickstart");
}

#[test]
fn fewer_contenders_than_slots_all_hold_at_once() {
    let args = ["--contenders", "2", "--limit", "5"];
    let shown = run(None, &args).success();
    assert_eq!(shown.lines().last(), Some("max concurrent: 2 of 5"));
}

#[test]
fn a_limit_that_others_have_set_is_a_conflict() {
    let agent = Agent::start().expect("an agent");
    let record = br#"{"Limit":7,"Holders":{}}"#;
    let key = "/v1/kv/examples/quickstart/.lock?flags=16210313421097356768";
    agent.client().put(key, record).expect("a record");
    let ran = run(Some(&agent.url()), &["--hold-ms", "10"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("the limit is 3 here"), "{}", ran.stderr);
    agent.assert_nothing_left("examples/quickstart");
}

#[test]
fn bad_flags_are_refused_with_the_reason() {
    let cases: [(&[&str], &str); 8] = [
        (&["--prefix", ""], "the prefix \"\" is empty"),
        (&["--prefix", "a//b"], "has an empty segment"),
        (&["--prefix", "a/../b"], "has a segment of dots"),
        (&["--limit", "0"], "\"0\""),
        (&["--contenders", "0"], "--contenders: 0 is not in 1 to 60"),
        (&["--hold-ms", "600001"], "--hold-ms"),
        (&["--backend", "tokio"], "--backend"),
        (&["--svg"], "--svg"),
    ];
    for (args, reason) in cases {
        run(None, args).assert_refused(2, reason);
    }
}

#[test]
fn help_names_each_flag() {
    let shown = run(None, &["--help"]).success();
    for flag in ["contenders", "limit", "prefix", "hold-ms", "seed", "svg"] {
        assert!(shown.contains(&format!("--{flag} ")), "{flag}");
    }
}

#[test]
fn a_bad_address_is_refused_without_being_shown() {
    for (address, reason) in [
        ("http://user:secret@127.0.0.1:8500", "credentials"),
        ("ftp://127.0.0.1", "http"),
        ("http://", "host"),
        ("unix://", "socket"),
    ] {
        let ran = run(Some(address), &[]);
        ran.assert_refused(2, "CONSUL_HTTP_ADDR is not the address of an agent: ");
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

#[test]
fn an_address_where_nobody_listens_is_told() {
    let ran = run(Some("unix:///no/such/consul.sock"), &[]);
    let told = "error: no agent answers at unix:///no/such/consul.sock: ";
    ran.assert_refused(1, told);
    assert!(ran.stderr.contains("No such file"), "{}", ran.stderr);

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let ran = run(Some(&address), &[]);
    ran.assert_refused(1, &format!("error: no agent answers at http://{address}: "));
    assert!(ran.stderr.contains("onnection refused"), "{}", ran.stderr);
}

#[test]
fn an_agent_that_is_silent_is_not_waited_for_without_end() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let ran = run(Some(&address), &[]);
    ran.assert_refused(1, "the agent did not answer in time");
}
