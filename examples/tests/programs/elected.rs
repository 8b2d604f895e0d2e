//! `leader`, on the Consul in memory and on a real agent.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::{Consul, run};
use real_agent::Agent;

const LEADER: &str = env!("CARGO_BIN_EXE_leader");
const KEY: &str = "examples/elected/leader";
const STOPPED: [&str; 2] = ["interrupted", "stopped, another one may lead now"];

/// One of several who campaign. Ends with the test, whatever happens to it.
struct Candidate {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Candidate {
    fn start(url: &str, name: &str) -> Self {
        let mut child = Command::new(LEADER)
            .args([KEY, "--value", name, "--lock-delay", "0"])
            .env("CONSUL_HTTP_ADDR", url)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("a pipe");
        let lines = BufReader::new(stdout).lines();
        let mut candidate = Self { child, lines };
        let line = candidate.line();
        let expected = format!("{name:?} campaigns for {KEY} on the agent at {url}");
        assert_eq!(line.trim_end_matches('/'), expected);
        candidate
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    /// Its term and fencing token, as soon as it leads.
    fn leads(&mut self) -> (u64, u64) {
        term_and_token(&self.line())
    }

    /// Ctrl-C: what it says from then on.
    fn interrupt(mut self) -> Vec<String> {
        let interrupted = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(interrupted.expect("it runs").success());
        let mut rest = Vec::new();
        for line in &mut self.lines {
            rest.push(line.expect("text"));
        }
        assert!(self.child.wait().expect("an end").success());
        rest
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn term_and_token(line: &str) -> (u64, u64) {
    let numbers = line.strip_prefix("leads in term ");
    let (term, token) = numbers
        .and_then(|numbers| numbers.split_once(", fencing token "))
        .expect(line);
    (term.parse().expect(line), token.parse().expect(line))
}

/// The key's value and session, as Consul shows them.
fn shown(agent: &Agent) -> (String, Option<String>) {
    let path = format!("/v1/kv/{KEY}");
    let entry = agent.client().get(&path).expect("an answer");
    let entry = entry.json().expect("JSON")[0].clone();
    let raw = agent.client().get(&format!("{path}?raw"));
    let session = entry["Session"].as_str().map(str::to_owned);
    (raw.expect("an answer").text(), session)
}

#[test]
fn alone_it_leads_a_consul_in_memory_and_resigns() {
    let shown = run(
        LEADER,
        Consul::InMemory,
        &["--value", "me", "--hold-ms", "20"],
    )
    .success();
    let lines: Vec<_> = shown.lines().collect();
    let [head, leads, end] = lines[..] else {
        panic!("{shown}");
    };
    let campaigns = "\"me\" campaigns for examples/discover/leader on a Consul in memory";
    assert_eq!(head, campaigns);
    let (term, token) = term_and_token(leads);
    assert!(term == 1 && token > 0, "{leads}");
    assert_eq!(end, STOPPED[1]);
}

#[test]
fn flags_that_make_no_election_are_refused() {
    let cases: [(&[&str], &str); 4] = [
        (&[""], "the key \"\""),
        (&["a/../leader"], "the key \"a/../leader\""),
        (&["--lock-delay", "61"], "61 is not in 0..=60"),
        (&["--lock-delay", "soon"], "--lock-delay"),
    ];
    for (args, reason) in cases {
        run(LEADER, Consul::InMemory, args).assert_refused(2, reason);
    }
    run(LEADER, Consul::At("ftp://127.0.0.1"), &[])
        .assert_refused(2, "CONSUL_HTTP_ADDR is not the address of an agent: ");
}

#[test]
fn a_key_of_something_else_is_told() {
    let agent = Agent::start().expect("an agent");
    let path = format!("/v1/kv/{KEY}?flags=7");
    let written = agent.client().put(&path, b"configuration");
    assert!(written.expect("an answer").is_true());
    let ran = run(LEADER, Consul::At(&agent.url()), &[KEY]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let told =
        "error: the election failed: the key \"examples/elected/leader\" is not an election's: ";
    assert!(ran.stderr.starts_with(told), "{}", ran.stderr);
    assert_eq!(shown(&agent), ("configuration".to_owned(), None));
}

#[test]
fn of_three_one_leads_and_a_clean_stop_makes_another_one_the_leader() {
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    let mut first = Candidate::start(&url, "first");
    let before = first.leads();
    assert_eq!(before.0, 1);
    let [second, third] = ["second", "third"].map(|name| Candidate::start(&url, name));
    // Who campaigns has a session.
    while agent.client().sessions().expect("an answer").len() < 3 {
        std::thread::yield_now();
    }
    let (value, session) = shown(&agent);
    assert_eq!(value, "first");

    assert_eq!(first.interrupt(), STOPPED);
    let next = loop {
        let (value, holder) = shown(&agent);
        if holder.is_some() && holder != session {
            break value;
        }
    };
    let (mut leader, other) = match next.as_str() {
        "second" => (second, third),
        "third" => (third, second),
        _ => panic!("{next} leads"),
    };
    let after = leader.leads();
    assert_eq!(after.0, 2);
    assert!(after.1 > before.1, "{before:?} {after:?}");
    assert_eq!(other.interrupt(), STOPPED, "two lead");
    assert_eq!(leader.interrupt(), STOPPED);
    assert_eq!(shown(&agent), (next, None));
    assert!(agent.client().sessions().expect("an answer").is_empty());
}
