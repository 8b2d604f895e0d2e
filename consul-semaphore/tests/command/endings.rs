//! The command and this program leave nothing running behind.

use crate::support::{Running, is_alive, scene, wait_until};

fn number(line: &str) -> u32 {
    line.parse().expect("a process id")
}

#[test]
fn what_the_command_has_left_behind_ends_before_the_slot_is_given_back() {
    let (agent, prefix) = scene();
    let script = "sleep 1000 & echo $!; exit 6";
    let mut running = Running::start(agent.url(), &[&prefix, "--", "sh", "-c", script]);
    let grandchild = number(&running.line());
    running.event("ended");
    assert!(!is_alive(grandchild));
    assert_eq!(running.end().0, Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn what_does_not_want_to_end_is_killed_when_its_grace_is_over() {
    let (agent, prefix) = scene();
    let script = "(trap '' TERM; echo ready; while :; do sleep 1000; done) & read x; wait";
    let script = script.replace("read x; wait", "echo $!; sleep 0.2; exit 6");
    let arguments = ["--grace", "200ms", &prefix, "--", "sh", "-c", &script];
    let mut running = Running::start(agent.url(), &arguments);
    let lines = [running.line(), running.line()];
    let grandchild = lines.iter().find_map(|line| line.parse().ok());
    let grandchild = grandchild.expect("a process id");
    running.event("killed");
    running.event("ended");
    assert!(!is_alive(grandchild));
    assert_eq!(running.end().0, Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn the_command_and_what_it_has_started_end_when_their_supervisor_is_killed() {
    let (agent, prefix) = scene();
    let script = "sleep 1000 & echo $!; wait";
    let mut running = Running::start(agent.url(), &[&prefix, "--", "sh", "-c", script]);
    let command = running.command();
    let grandchild = number(&running.line());
    assert!(is_alive(command) && is_alive(grandchild));
    running.signal("KILL");
    assert_eq!(running.end().0, None);
    wait_until("the command's end", || !is_alive(command));
    wait_until("its child's end", || !is_alive(grandchild));
}
