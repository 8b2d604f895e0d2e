//! What Consul's lock delay survives, which the core relies on, and what it does not survive.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Client, Cluster};
use serde_json::{Value, json};

/// This is longer than an election or a restart takes.
const DELAY: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_mins(1);

/// Every server counts the delay itself, from the moment when it applied the end of the session.
#[test]
fn a_lock_delay_survives_the_death_of_the_leader() {
    let mut cluster = Cluster::start().unwrap();
    let leader = cluster.leader().unwrap();
    let follower = cluster.server((leader + 1) % 3).client();
    let (own, ended_at) = end_a_holder(&follower);
    cluster.kill(leader).unwrap();
    cluster.wait_for_leader().unwrap();
    assert_free_after(&follower, &own, ended_at, DELAY);
}

/// The server counts the delay again when it reads its log.
#[test]
fn a_lock_delay_survives_a_restart_from_the_log() {
    let mut agent = Agent::builder().durable().start().unwrap();
    let (own, _) = end_a_holder(&agent.client());
    let restarted_at = Instant::now();
    agent.restart().unwrap();
    assert_free_after(&agent.client(), &own, restarted_at, DELAY);
}

/// Snapshots contain no lock delays. That is why a pruner counts for itself, too.
#[test]
fn a_lock_delay_is_forgotten_when_a_snapshot_is_restored() {
    let agent = Agent::builder().durable().start().unwrap();
    let client = agent.client();
    let (own, _) = end_a_holder(&client);
    assert_eq!(probe(&client, &own), NOT_YET);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    for verb in ["save", "restore"] {
        snapshot(&agent, verb, &file);
    }
    assert_eq!(probe(&client, &own), FREE);
    assert!(acquire(&client, &own));
}

/// Ends a holder's session early, and returns another session, which will ask, and the moment.
fn end_a_holder(client: &Client) -> (String, Instant) {
    let session = |delay: Duration| {
        let delay = format!("{}s", delay.as_secs());
        let body =
            json!({ "TTL": "600s", "LockDelay": delay, "Behavior": "delete", "NodeChecks": [] });
        client.create_session(&body.to_string()).unwrap()
    };
    let (holder, own) = (session(DELAY), session(Duration::ZERO));
    assert!(acquire(client, &holder));
    let ended_at = Instant::now();
    client.destroy_session(&holder).unwrap();
    (own, ended_at)
}

fn acquire(client: &Client, session: &str) -> bool {
    let answer = client.put(&format!("/v1/kv/slots/key?acquire={session}"), b"");
    answer.is_ok_and(|answer| answer.is_true())
}

const NOT_YET: Option<u64> = Some(0);
const FREE: Option<u64> = Some(1);

/// Asks whether the key could be acquired, without ever acquiring it. Returns the index of the
/// operation that failed.
fn probe(client: &Client, session: &str) -> Option<u64> {
    let operations = json!([
        { "KV": { "Verb": "lock", "Key": "slots/key", "Session": session, "Value": "" } },
        { "KV": { "Verb": "check-not-exists", "Key": "slots/key" } },
    ]);
    let answer = client.put("/v1/txn", operations.to_string().as_bytes());
    let answer = answer.ok().filter(|answer| answer.status == 409)?;
    let errors = answer.json().unwrap();
    errors["Errors"]
        .as_array()
        .and_then(|errors| errors.first())
        .and_then(|error| error["OpIndex"].as_u64())
}

#[track_caller]
fn assert_free_after(client: &Client, own: &str, since: Instant, delay: Duration) {
    let deadline = Instant::now() + PATIENCE;
    let mut refusals = 0;
    loop {
        let asked_at = Instant::now();
        match probe(client, own) {
            FREE => {
                let waited = since.elapsed();
                assert!(waited >= delay, "free after {waited:?}");
                break;
            }
            NOT_YET => refusals += 1,
            _ => {}
        }
        assert!(asked_at < deadline, "never free");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(refusals > 0, "nothing was ever asked in time");
    assert_eq!(key(client), Value::Null, "a question changes nothing");
    assert!(acquire(client, own));
}

fn key(client: &Client) -> Value {
    let answer = client.get("/v1/kv/slots/key").unwrap();
    answer
        .json()
        .map_or(Value::Null, |all| all[0]["Session"].clone())
}

fn snapshot(agent: &Agent, verb: &str, file: &Path) {
    let status = Command::new(agent.binary())
        .args(["snapshot", verb, "-http-addr", &agent.addr().to_string()])
        .arg(file)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}
