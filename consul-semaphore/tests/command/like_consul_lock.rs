//! A script that calls `consul lock` works when it calls this program instead.

use std::process::{Child, Command, Stdio};

use real_agent::{Agent, Client};
use tempfile::TempDir;

use crate::support::{
    Ran, Running, closed_port, is_alive, program, run, run_with, scene, send, wait_until,
};

fn like(url: &str, arguments: &[&str]) -> Ran {
    let mut all = vec!["--like-consul-lock"];
    all.extend_from_slice(arguments);
    run(url, &all)
}

#[test]
fn a_command_that_fails_is_no_failure_unless_that_is_asked_for() {
    let (agent, prefix) = scene();
    for (flags, script, code) in [
        (&[][..], "exit 0", 0),
        (&[], "exit 3", 0),
        (&["-child-exit-code"], "exit 0", 0),
        (&["-child-exit-code"], "exit 3", 2),
        (&["-child-exit-code=true", "-n=2"], "exit 3", 2),
        (&["-child-exit-code=false", "-n", "2"], "exit 3", 0),
    ] {
        let below = format!("{prefix}/{}", flags.len());
        let mut arguments = flags.to_vec();
        arguments.extend([below.as_str(), script]);
        let ran = like(agent.url(), &arguments);
        assert_eq!(ran.code, Some(code), "{flags:?} {script}: {ran:?}");
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn the_command_goes_through_a_shell_knows_that_it_holds_and_reads_nothing_unless_it_may() {
    let (agent, prefix) = scene();
    let shell = like(
        agent.url(),
        &[&prefix, "echo", "$CONSUL_LOCK_HELD;", "echo", "b"],
    );
    assert_eq!(shell.stdout, "true\nb\n", "{shell:?}");
    let plain = like(
        agent.url(),
        &["-shell=false", &prefix, "echo", "$HOME;", "-n"],
    );
    assert_eq!(plain.stdout, "$HOME; -n\n", "{plain:?}");
    let cat = program(agent.url(), &["--like-consul-lock", &prefix, "cat"]);
    assert_eq!(run_with(cat, "words").stdout, "");
    let cat = program(
        agent.url(),
        &["--like-consul-lock", "-pass-stdin", &prefix, "cat"],
    );
    assert_eq!(run_with(cat, "words").stdout, "words");
}

#[test]
fn everything_else_is_one() {
    let nowhere = closed_port();
    like(&nowhere, &["p"]).assert(1, "");
    like(&nowhere, &["-n", "0", "p", "true"]).assert(1, "limit");
    like(&nowhere, &["-timeout", "300ms", "p", "true"]).assert(1, "could not be reached");
    like(&nowhere, &["-no-such-flag", "p", "true"]).assert(1, "no-such-flag");
}

#[test]
fn called_by_the_other_name_it_is_the_other_program() {
    let (agent, prefix) = scene();
    let folder = TempDir::new().expect("a folder");
    let link = folder.path().join("consul-lock");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_consul-semaphore"), &link).expect("a link");
    let ours = program(agent.url(), &[]);
    let mut command = Command::new(&link);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["-child-exit-code", &prefix, "exit 7"]);
    let ran = run_with(command, "");
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_token_is_taken_from_the_command_line_here() {
    let token = "11111111-2222-3333-4444-555555555555";
    let agent = Agent::builder().acl(token).start().expect("an agent");
    let flag = format!("-token={token}");
    let ran = like(&agent.url(), &[&flag, "-child-exit-code", "p", "exit 3"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    like(&agent.url(), &["p", "true"]).assert(1, "denies");
}

/// A `consul lock` that holds until it is told to end.
struct Holder(Child);

impl Holder {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }

    fn end(mut self) -> Option<i32> {
        send("TERM", self.0.id());
        self.0.wait().expect("an end").code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn holder_of(agent: &Client, key: &str) -> bool {
    let entry = agent.get(&format!("/v1/kv/{key}"));
    let entry = entry.expect("an answer").json().unwrap_or_default();
    entry[0]["Session"].is_string()
}

fn theirs(agent: &Agent, arguments: &[&str]) -> Command {
    let mut command = Command::new(agent.binary());
    command.arg("lock").env("CONSUL_HTTP_ADDR", agent.url());
    command.args(arguments);
    command
}

fn ours(agent: &Agent, arguments: &[&str]) -> Command {
    let mut command = program(&agent.url(), &["--like-consul-lock"]);
    command.args(arguments);
    command
}

#[test]
fn it_and_consul_lock_keep_each_other_out() {
    let agent = Agent::start().expect("an agent");
    let client = agent.client();
    let theirs = |arguments: &[&str]| theirs(&agent, arguments);
    let ours = |arguments: &[&str]| ours(&agent, arguments);
    let holding = ["p", "sleep 1000"];
    let trying = ["-timeout", "500ms", "p", "true"];
    let holder = Holder::start(theirs(&holding));
    wait_until("`consul lock`", || holder_of(&client, "p/.lock"));
    assert_eq!(run_with(ours(&trying), "").code, Some(1));
    holder.end();
    let holder = Holder::start(ours(&holding));
    wait_until("ours", || holder_of(&client, "p/.lock"));
    assert_eq!(run_with(theirs(&trying), "").code, Some(1));
    holder.end();
    assert_eq!(
        run_with(theirs(&["-timeout", "30s", "p", "true"]), "").code,
        Some(0)
    );
}

#[test]
fn it_and_consul_lock_share_a_semaphore() {
    let agent = Agent::start().expect("an agent");
    let client = agent.client();
    let theirs = |arguments: &[&str]| theirs(&agent, arguments);
    let ours = |arguments: &[&str]| ours(&agent, arguments);
    let holders = || {
        let record = client.get("/v1/kv/q/.lock?raw").expect("an answer");
        let record = record.json().unwrap_or_default();
        record["Holders"]
            .as_object()
            .map_or(0, serde_json::Map::len)
    };
    let holding = ["-n", "2", "q", "sleep 1000"];
    let trying = ["-n", "2", "-timeout", "500ms", "q", "true"];
    let first = Holder::start(theirs(&holding));
    wait_until("`consul lock`", || holders() == 1);
    let second = Holder::start(ours(&holding));
    wait_until("ours", || holders() == 2);
    assert_eq!(run_with(theirs(&trying), "").code, Some(1));
    assert_eq!(run_with(ours(&trying), "").code, Some(1));
    second.end();
    assert_eq!(run_with(theirs(&trying), "").code, Some(0));
    first.end();
    assert_eq!(run_with(ours(&trying), "").code, Some(0));
}

#[test]
fn a_prefix_names_the_key_that_consul_lock_would_take() {
    let agent = Agent::start().expect("an agent");
    let client = agent.client();
    for (given, key) in [
        ("a//b", "a/b/.lock"),
        ("./c", "c/.lock"),
        ("x/../d", "d/.lock"),
        ("/e/", "e/.lock"),
    ] {
        for n in ["1", "2"] {
            let arguments = ["-n", n, "-child-exit-code", given, "exit 1"];
            for command in [ours(&agent, &arguments), theirs(&agent, &arguments)] {
                let ran = run_with(command, "");
                assert_eq!(ran.code, Some(2), "{given} {n}: {ran:?}");
            }
            let holding = ["-n", n, given, "sleep 1000"];
            let holder = Holder::start(ours(&agent, &holding));
            wait_until("a record", || {
                let entry = client.get(&format!("/v1/kv/{key}")).expect("an answer");
                entry.status == 200
            });
            holder.end();
            client.delete(&format!("/v1/kv/{key}")).expect("an answer");
        }
    }
    // All releases take neither of these.
    for given in [" a", "a b ", "../a", "a%20b"] {
        let arguments = ["-n", "2", "-timeout", "5s", given, "true"];
        assert_eq!(
            run_with(ours(&agent, &arguments), "").code,
            Some(1),
            "{given}"
        );
    }
}

#[test]
fn a_lock_that_is_lost_is_one_and_the_wait_ends_at_once_by_a_signal() {
    let (agent, prefix) = scene();
    let key = format!("{prefix}/.lock");
    let mut holder = program(agent.url(), &["--like-consul-lock", &prefix, "sleep 1000"]);
    let mut holder = holder.spawn().expect("it starts");
    wait_until("a holder", || holder_of(&agent, &key));
    let waiter = Running::spawn(
        program(agent.url(), &["--like-consul-lock"]),
        &["-name", &prefix, &prefix, "true"],
    );
    wait_until("a waiter", || {
        let sessions = agent.get("/v1/session/list").expect("sessions").text();
        sessions.contains(&format!("\"{prefix}\""))
    });
    waiter.signal("TERM");
    assert_eq!(waiter.end().0, Some(1));
    let entry = agent.get(&format!("/v1/kv/{key}"));
    let entry = entry.and_then(|entry| entry.json()).expect("an entry");
    let session = entry[0]["Session"].as_str().expect("a session");
    agent.destroy_session(session).expect("an answer");
    assert_eq!(holder.wait().expect("an end").code(), Some(1));
    assert!(!is_alive(holder.id()));
}
