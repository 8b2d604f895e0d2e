//! A command that has become another user can't be signalled. That is told, and it keeps its slot.

use crate::support::{Running, contenders, is_alive, is_root, names, program, scene, send, within};

/// A command of another user, under a supervisor that may not signal it: as with `sudo`, but the
/// other way round, since only root can make one. `None` for any other user.
fn start(url: &str, arguments: &[&str]) -> Option<(Running, u32)> {
    if !is_root() {
        println!("only root can start a process of another user: not tried");
        return None;
    }
    let ours = program(url, &["run", "--json"]);
    let weak = within(
        &["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill"],
        &ours,
    );
    let other = ["--", "setpriv", "--reuid", "65534", "--clear-groups"];
    let command = ["sh", "-c", "echo ready; exec sleep 1000"];
    let arguments: Vec<&str> = arguments
        .iter()
        .copied()
        .chain(other)
        .chain(command)
        .collect();
    let mut running = Running::spawn(weak, &arguments);
    let command = running.command();
    assert_eq!(running.line(), "ready");
    Some((running, command))
}

#[test]
fn a_signal_that_can_not_be_sent_is_told_and_the_slot_is_kept_while_the_command_lives() {
    let (agent, prefix) = scene();
    let Some((mut running, command)) = start(agent.url(), &[&prefix]) else {
        return;
    };
    running.signal("TERM");
    let told = running.event("not-sent");
    assert_eq!(told["signal"], 15);
    let why = told["why"].as_str().expect("a reason");
    assert!(
        why.contains("another user") && why.contains("nothing is given back"),
        "{why}"
    );
    assert!(is_alive(command));
    assert_eq!(contenders(&agent, &prefix), 1);
    send("KILL", command);
    let (code, events) = running.end();
    assert_eq!(code, Some(137), "{events:?}");
    assert!(!names(&events).contains(&"passed"), "{events:?}");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_command_that_can_not_be_killed_at_a_loss_is_not_told_as_killed_and_is_waited_for() {
    let (agent, prefix) = scene();
    let arguments = ["--grace", "300ms", &prefix];
    let Some((mut running, command)) = start(agent.url(), &arguments) else {
        return;
    };
    let sessions = agent.get(&format!("/v1/kv/{prefix}/?keys")).expect("keys");
    let sessions = sessions.text();
    let mut keys = sessions.split('"');
    let contender = |key: &'_ str| key.strip_prefix(&format!("{prefix}/")).map(str::to_owned);
    let session = keys.find_map(|key| contender(key).filter(|name| name != ".lock"));
    let session = session.expect("a contender");
    agent.destroy_session(&session).expect("an answer");
    running.event("lost");
    assert_eq!(running.event("not-sent")["signal"], 15);
    assert_eq!(running.event("not-sent")["signal"], 9);
    assert!(is_alive(command));
    send("KILL", command);
    let (code, events) = running.end();
    assert_eq!(code, Some(120), "{events:?}");
    let names = names(&events);
    assert!(
        !names.contains(&"told") && !names.contains(&"killed"),
        "{names:?}"
    );
}
