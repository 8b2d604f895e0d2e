//! Signals reach the command once, and end the wait at once.

use std::process::Command;

use crate::support::{Running, contenders, names, program, scene, wait_until};

/// Prints when it is ready and which signals arrive, until USR1 ends it.
const COUNTS: &str = "
    n=0
    for s in INT TERM HUP QUIT; do trap \"n=\\$((n+1)); echo $s \\$n\" $s; done
    trap 'echo USR1; exit 5' USR1
    echo ready
    while :; do sleep 0.01; done";

#[test]
fn each_signal_that_asks_for_the_end_is_passed_on_once_and_the_code_stays_the_commands() {
    let (agent, prefix) = scene();
    // A program that cargo starts in the background may ignore INT. This one must not.
    let mut running = Running::start(agent.url(), &[&prefix, "--", "bash", "-c", COUNTS]);
    let command = running.command();
    assert_eq!(running.line(), "ready");
    for (count, signal) in ["TERM", "HUP", "QUIT", "INT"].into_iter().enumerate() {
        running.signal(signal);
        assert_eq!(running.line(), format!("{signal} {}", count + 1));
    }
    // A signal that came twice would have been printed by now.
    crate::support::send("USR1", command);
    assert_eq!(running.line(), "USR1");
    let (code, events) = running.end();
    assert_eq!(code, Some(5));
    let passed = names(&events).iter().filter(|it| **it == "passed").count();
    assert_eq!(passed, 4, "{events:?}");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn waiting_ends_at_once_and_leaves_nothing() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let mut waiter = Running::start(agent.url(), &[&prefix, "--", "true"]);
        waiter.event("waiting");
        wait_until("a waiter", || contenders(&agent, &prefix) == 2);
        waiter.signal(signal);
        let (ended, events) = waiter.end();
        assert_eq!(ended, Some(code), "{events:?}");
        assert!(!names(&events).contains(&"started"));
        wait_until("its end", || contenders(&agent, &prefix) == 1);
    }
    holder.signal("TERM");
    assert_eq!(holder.end().0, Some(143));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn what_nohup_has_turned_off_stays_off_for_the_command_too() {
    let (agent, prefix) = scene();
    let ours = program(agent.url(), &[]);
    let mut nohup = Command::new("nohup");
    nohup.arg(ours.get_program());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => nohup.env(name, value),
            None => nohup.env_remove(name),
        };
    }
    nohup.args(["run", "--json"]);
    let script = "echo ready; read line </dev/zero & wait; exit 4";
    let script = script.replace("read line </dev/zero", "sleep 1000");
    let mut running = Running::spawn(nohup, &[&prefix, "--", "sh", "-c", &script]);
    let command = running.command();
    assert_eq!(running.line(), "ready");
    running.signal("HUP");
    crate::support::send("HUP", command);
    running.signal("TERM");
    let (code, events) = running.end();
    assert_eq!(code, Some(143));
    let passed: Vec<_> = events.iter().filter(|it| it["event"] == "passed").collect();
    assert_eq!(passed.len(), 1, "{events:?}");
}
