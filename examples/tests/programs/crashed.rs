//! `discover` sees that `leader` was killed, on a real agent. The session takes half a minute to
//! expire.

use std::time::{Duration, Instant};

use real_agent::Agent;

use crate::candidate::{Candidate, KEY, STOPPED, next_leader, shown, wait_for_sessions};
use crate::support::{Consul, Running};

const DISCOVER: &str = env!("CARGO_BIN_EXE_discover");
/// Consul's shortest TTL.
const TTL: Duration = Duration::from_secs(10);
const LOCK_DELAY: Duration = Duration::from_secs(1);
const FLAGS: [&str; 4] = ["--ttl", "10", "--lock-delay", "1"];
/// The killed leader's last renewal was at most a lease before. Consul never ends a session before
/// its TTL, and nobody leads during the lock delay.
const SOONEST: Duration = Duration::from_secs(1).saturating_add(LOCK_DELAY);
/// What `Election::campaign` promises: twice the TTL, the lock delay and a second.
const LATEST: Duration = Duration::from_secs(20 + 1 + 1);
/// The delay of a loaded machine.
const SLACK: Duration = Duration::from_secs(10);

#[test]
fn a_killed_leader_has_one_successor_within_a_bound_and_one_that_stops_at_once() {
    assert_eq!(SOONEST, TTL / 10 + LOCK_DELAY);
    assert_eq!(LATEST, TTL * 2 + LOCK_DELAY + Duration::from_secs(1));
    let agent = Agent::start().expect("an agent");
    let url = agent.url();
    let mut follower = Running::start(DISCOVER, Consul::At(&url), &[KEY]);
    assert!(follower.line().starts_with("following "));
    assert_eq!(follower.line(), "nobody leads");

    let mut first = Candidate::start_with(&url, "first", &FLAGS);
    let (term, mut token) = first.leads();
    assert_eq!(term, 1);
    let session = assert_seen(&mut follower, &agent, "first");
    let others = ["second", "third"].map(|name| Candidate::start_with(&url, name, &FLAGS));
    wait_for_sessions(&agent, 3);

    let killed_at = Instant::now();
    assert!(first.kill().is_empty());
    let (mut leader, mut other) = next_leader(&agent, session.as_deref(), others);
    let (term, after) = leader.leads();
    let waited = killed_at.elapsed();
    assert!(waited >= SOONEST, "it leads after {waited:?}");
    assert!(waited < LATEST + SLACK, "it leads after {waited:?}");
    assert_eq!(term, 2);
    assert!(after > token);
    token = after;
    assert_eq!(follower.line(), "nobody leads");
    assert_seen(&mut follower, &agent, leader.name());

    let stopped_at = Instant::now();
    assert_eq!(leader.interrupt(), STOPPED);
    // Its first output: it did not lead while the other one did.
    let (term, after) = other.leads();
    let waited = stopped_at.elapsed();
    assert!(waited < TTL, "no session expires so soon: {waited:?}");
    assert_eq!(term, 3);
    assert!(after > token);
    // The key is free for such a short time that a follower may see only the next leader.
    let name = other.name();
    assert_seen(&mut follower, &agent, name);

    let stopped = other.interrupt();
    assert_eq!(stopped, STOPPED, "nobody led meanwhile");
    assert_eq!(follower.line(), "nobody leads");
    assert_eq!(follower.interrupt(), ["interrupted"]);
    assert_eq!(shown(&agent), (name.to_owned(), None));
    assert!(agent.client().sessions().expect("an answer").is_empty());
}

/// Waits until `discover` reports that this one leads. Returns whose the key is then.
fn assert_seen(follower: &mut Running, agent: &Agent, name: &str) -> Option<String> {
    let mut line = follower.line();
    if line == "nobody leads" {
        line = follower.line();
    }
    assert!(
        line.starts_with(&format!("{name:?} leads from node ")),
        "{line}"
    );
    assert!(line.contains("TTL 10s"), "{line}");
    let (_, session) = shown(agent);
    let session_of = session.as_deref().expect("somebody leads");
    assert!(line.contains(session_of), "{line}");
    session
}
