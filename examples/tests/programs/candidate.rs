//! The program `leader`, several times at once.

use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use real_agent::Agent;

use crate::support::{Consul, Running};

pub(crate) const LEADER: &str = env!("CARGO_BIN_EXE_leader");
pub(crate) const KEY: &str = "examples/elected/leader";
pub(crate) const STOPPED: [&str; 2] = ["interrupted", "stopped, another one may lead now"];

/// One of several candidates, with its name as the value.
pub(crate) struct Candidate {
    name: &'static str,
    program: Running,
}

impl Candidate {
    /// Without a lock delay.
    pub(crate) fn start(url: &str, name: &'static str) -> Self {
        Self::start_with(url, name, &["--lock-delay", "0"])
    }

    pub(crate) fn start_with(url: &str, name: &'static str, flags: &[&str]) -> Self {
        let args = [&[KEY, "--value", name], flags].concat();
        let mut program = Running::start(LEADER, Consul::At(url), &args);
        let expected = format!("{name:?} campaigns for {KEY} on the agent at {url}");
        assert_eq!(program.line().trim_end_matches('/'), expected);
        Self { name, program }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its term and fencing token, as soon as it leads.
    pub(crate) fn leads(&mut self) -> (u64, u64) {
        term_and_token(&self.program.line())
    }

    /// Ctrl-C. Returns its later output.
    pub(crate) fn interrupt(self) -> Vec<String> {
        self.program.interrupt()
    }

    /// `kill -9`. Returns its output so far.
    pub(crate) fn kill(self) -> Vec<String> {
        self.program.kill()
    }
}

pub(crate) fn term_and_token(line: &str) -> (u64, u64) {
    let numbers = line.strip_prefix("leads in term ");
    let numbers = numbers.and_then(|numbers| numbers.split_once(", since "));
    let (numbers, since) = numbers.expect(line);
    let since: f64 = since.parse().expect(line);
    let now = UNIX_EPOCH.elapsed().expect("a clock").as_secs_f64();
    assert!((now - 60.0..=now).contains(&since), "{line} at {now}");
    let (term, token) = numbers.split_once(", fencing token ").expect(line);
    (term.parse().expect(line), token.parse().expect(line))
}

/// The key's value and session, as Consul shows them.
pub(crate) fn shown(agent: &Agent) -> (String, Option<String>) {
    let path = format!("/v1/kv/{KEY}");
    let entry = agent.client().get(&path).expect("an answer");
    let entry = entry.json().expect("JSON")[0].clone();
    let raw = agent.client().get(&format!("{path}?raw"));
    let session = entry["Session"].as_str().map(str::to_owned);
    (raw.expect("an answer").text(), session)
}

/// Waits until the key has another session than `before`. Returns the new leader and those that are
/// left.
pub(crate) fn next_leader(
    agent: &Agent,
    before: Option<&str>,
    [one, other]: [Candidate; 2],
) -> (Candidate, Candidate) {
    let next = wait_for("another one leads", || {
        let (value, holder) = shown(agent);
        (holder.is_some() && holder.as_deref() != before).then_some(value)
    });
    if next == one.name {
        (one, other)
    } else {
        assert_eq!(next, other.name);
        (other, one)
    }
}

pub(crate) fn wait_for_sessions(agent: &Agent, count: usize) {
    wait_for("all campaign", || {
        let sessions = agent.client().sessions().expect("an answer");
        (sessions.len() >= count).then_some(())
    });
}

/// Asks repeatedly, for at most a minute.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "still waits until {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
