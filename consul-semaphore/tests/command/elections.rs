//! Leading, and asking who leads.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value as Json;

use crate::support::{Running, program, run, scene};

#[test]
fn the_command_runs_while_it_leads_and_one_at_a_time() {
    let (agent, key) = scene();
    let lead = || program(agent.url(), &["elect", "run", "--json"]);
    let script = "echo $CONSUL_ELECTION_KEY $CONSUL_SEMAPHORE_SEQUENCER; sleep 1000";
    let mut leader = Running::spawn(lead(), &["--value", "a", &key, "--", "sh", "-c", script]);
    let granted = leader.event("granted");
    let sequencer = granted["sequencers"][0].as_str().expect("a sequencer");
    assert_eq!(leader.line(), format!("{key} {sequencer}"));

    let status = run(agent.url(), &["elect", "status", &key]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(
        status.stdout.contains("led by a, a candidate since "),
        "{status:?}"
    );
    let shown = run(agent.url(), &["elect", "status", "--json", &key]).stdout;
    let shown: Json = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["leader"]["session"], granted["session"]);

    run(agent.url(), &["elect", "run", "--try", &key, "--", "true"]).assert(124, "leads");
    let mut next = Running::spawn(lead(), &["--value", "b", &key, "--", "sh", "-c", "exit 3"]);
    next.event("waiting");
    leader.signal("TERM");
    assert_eq!(leader.end().0, Some(143));
    assert_eq!(next.end().0, Some(3));
    let status = run(agent.url(), &["elect", "status", &key]);
    assert_eq!(status.code, Some(1), "{status:?}");
    assert_eq!(status.stdout, format!("{key}: nobody leads\n"));
}

#[test]
fn a_lead_that_is_lost_ends_the_command() {
    let (agent, key) = scene();
    let lead = program(agent.url(), &["elect", "run", "--json"]);
    let mut leader = Running::spawn(lead, &[&key, "--", "sleep", "1000"]);
    let session = leader.event("granted")["session"].clone();
    leader.event("started");
    agent
        .destroy_session(session.as_str().expect("a session"))
        .expect("an answer");
    assert_eq!(leader.end().0, Some(120));
}

#[test]
fn watch_has_a_line_for_each_change() {
    let (agent, key) = scene();
    let mut watch = program(agent.url(), &["elect", "watch", &key]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().ends_with("nobody leads"));
    let lead = program(agent.url(), &["elect", "run", "--json"]);
    let mut leader = Running::spawn(lead, &["--value", "node-7", &key, "--", "sleep", "1000"]);
    leader.event("started");
    let line = next();
    assert!(line.contains("led by node-7, session "), "{line}");
    leader.signal("TERM");
    leader.end();
    assert!(next().ends_with("nobody leads"));
    watch.kill().expect("it runs");
    watch.wait().expect("an end");
}
