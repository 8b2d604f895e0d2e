//! Who holds and who waits, for people and for programs.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value as Json;

use crate::support::{Running, contenders, program, run, scene, wait_until};

fn json(text: &str) -> Json {
    serde_json::from_str(text.trim()).expect("JSON")
}

#[test]
fn status_shows_holders_and_waiters_in_order_with_node_and_session() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    let session = holder.event("granted")["session"].clone();
    holder.event("started");
    let mut waiters = Vec::new();
    for name in ["first", "second"] {
        let arguments = ["--value", name, &prefix, "--", "true"];
        waiters.push(Running::start(agent.url(), &arguments));
        let all = waiters.len() + 1;
        wait_until("a waiter", || contenders(&agent, &prefix) == all);
    }
    let shown = run(agent.url(), &["status", "--json", &prefix]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown = json(&shown.stdout);
    assert_eq!(shown["limit"], 1);
    assert_eq!(shown["holders"][0]["session"], session);
    assert!(shown["holders"][0]["node"].is_string(), "{shown}");
    assert!(shown["holders"][0]["since"].is_string(), "{shown}");
    assert_eq!(shown["waiters"][0]["value"], "first");
    assert!(shown["waiters"][0]["since"].is_string(), "{shown}");
    assert_eq!(shown["waiters"][1]["value"], "second");

    let text = run(agent.url(), &["status", &prefix]).stdout;
    assert!(text.contains("1 of 1 held, 2 waiting"), "{text}");
    let holder_line = text.lines().nth(1).expect("a line");
    assert!(
        holder_line.contains(&format!("/{}", holder.pid())),
        "{text}"
    );
    assert!(text.contains("waits 1  first"), "{text}");

    let listed = run(agent.url(), &["list", "--json", &prefix]);
    let listed = json(&listed.stdout);
    assert_eq!(listed["held"], 1, "{listed}");
    assert_eq!(listed["waiting"], 2, "{listed}");
    holder.signal("TERM");
    holder.end();
    for waiter in waiters {
        assert_eq!(waiter.end().0, Some(0));
    }
    agent.assert_nothing_left(&prefix);
}

#[test]
fn status_says_since_when_also_where_name_and_value_are_the_users() {
    let (agent, prefix) = scene();
    let chosen = ["--name", "nightly", "--value", "db-7"];
    let held = [&prefix, "--", "sleep", "1000"];
    let arguments: Vec<&str> = chosen.into_iter().chain(held.map(|it| it)).collect();
    let mut holder = Running::start(agent.url(), &arguments);
    holder.event("started");
    let shown = json(&run(agent.url(), &["status", "--json", &prefix]).stdout);
    let member = &shown["holders"][0];
    assert_eq!(member["value"], "db-7");
    assert!(member["since"].is_string(), "{shown}");
    let name = member["name"].as_str().expect("a name");
    assert!(name.starts_with("nightly "), "{shown}");
    holder.signal("TERM");
    holder.end();
    agent.assert_nothing_left(&prefix);
}

#[test]
fn where_there_is_no_semaphore_the_answer_is_no() {
    let (agent, prefix) = scene();
    run(agent.url(), &["status", &prefix]).assert(1, "no semaphore");
    assert_eq!(run(agent.url(), &["list", &prefix]).code, Some(1));
}

#[test]
fn watch_tells_each_change() {
    let (agent, prefix) = scene();
    let first = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let mut watch = program(agent.url(), &["status", "--watch", "--json", &prefix]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || json(&lines.next().expect("a line").expect("text"));
    assert_eq!(next()["holders"], Json::Array(Vec::new()));
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    let session = holder.event("granted")["session"].clone();
    while next()["holders"][0]["session"] != session {}
    holder.signal("TERM");
    holder.end();
    while next()["holders"] != Json::Array(Vec::new()) {}
    watch.kill().expect("it runs");
    watch.wait().expect("an end");
}

#[test]
fn list_shows_every_semaphore_and_election_below() {
    let (agent, prefix) = scene();
    let (semaphore, key) = (format!("{prefix}/a"), format!("{prefix}/leader"));
    let ran = run(agent.url(), &["run", "-n", "4", &semaphore, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = run(agent.url(), &["elect", "run", &key, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let listed = run(agent.url(), &["list", &prefix]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let text = listed.stdout;
    assert!(text.contains("0 of 4 held, 0 waiting"), "{text}");
    assert!(text.contains("nobody leads"), "{text}");
}
