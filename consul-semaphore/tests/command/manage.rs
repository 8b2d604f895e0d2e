//! Changes that operators make.

use crate::support::{Running, run, scene};

#[test]
fn a_limit_is_changed_and_a_smaller_one_only_if_that_is_meant() {
    let (agent, prefix) = scene();
    run(agent.url(), &["resize", &prefix, "2"]).assert(1, "no semaphore");
    run(agent.url(), &["run", "-n", "2", &prefix, "--", "true"]);
    let larger = run(agent.url(), &["resize", &prefix, "3"]);
    assert_eq!(
        larger.stdout,
        format!("{prefix}: limit 2 -> 3\n"),
        "{larger:?}"
    );
    run(agent.url(), &["resize", &prefix, "1"]).assert(125, "--yes");
    let smaller = run(agent.url(), &["resize", "--yes", &prefix, "1"]);
    assert_eq!(
        smaller.stdout,
        format!("{prefix}: limit 3 -> 1\n"),
        "{smaller:?}"
    );
    run(agent.url(), &["resize", &prefix, "0"]).assert(125, "limit");
}

#[test]
fn whoever_is_evicted_loses_its_slot_and_its_command() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    let session = holder.event("granted")["session"].clone();
    let session = session.as_str().expect("a session").to_owned();
    run(agent.url(), &["evict", &session]).assert(125, "--yes");
    holder.event("started");
    let evicted = run(agent.url(), &["evict", "--yes", &session]);
    assert_eq!(evicted.code, Some(0), "{evicted:?}");
    assert_eq!(holder.end().0, Some(120));
    run(agent.url(), &["evict", "--yes", &session]).assert(1, "no such session");
    run(agent.url(), &["evict", "--yes", "nobody"]).assert(125, "nobody");
}

#[test]
fn whoever_is_evicted_with_a_reason_is_told_it() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    let session = holder.event("granted")["session"].clone();
    let session = session.as_str().expect("a session").to_owned();
    holder.event("started");
    let evict = |prefix: &str| {
        let why = ["--reason", "the disk is full", "--at", prefix];
        let arguments = [&["evict", "--yes", &session][..], &why].concat();
        run(agent.url(), &arguments)
    };
    evict("somewhere/else").assert(1, "neither holds nor waits");
    let evicted = evict(&prefix);
    assert_eq!(evicted.code, Some(0), "{evicted:?}");
    assert!(evicted.stdout.contains("told, and has left"), "{evicted:?}");
    let (code, events) = holder.end();
    assert_eq!(code, Some(120), "{events:?}");
    let lost = events.iter().find(|it| it["event"] == "lost");
    let lost = lost.expect("it is told").to_string();
    assert!(lost.contains("was evicted: the disk is full"), "{lost}");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_semaphore_is_removed_when_nobody_uses_it() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    run(agent.url(), &["destroy", "--yes", &prefix]).assert(123, "in use: 1 ");
    holder.signal("TERM");
    holder.end();
    run(agent.url(), &["destroy", &prefix]).assert(125, "--yes");
    let removed = run(agent.url(), &["destroy", "--yes", &prefix]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    run(agent.url(), &["destroy", "--yes", &prefix]).assert(1, "no semaphore");
}
