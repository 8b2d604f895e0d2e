//! Signals reach the command once, and end the wait at once.

use std::process::{Command, Stdio};

use crate::support::{
    Running, children, contenders, is_alive, names, program, scene, unshare, wait_until, within,
};

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

/// Each of these would end a program that does not expect it, or means nothing to it.
const OTHERS: &[&str] = &[
    "USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "IO", "PWR", "WINCH", "CONT", "TRAP",
    "STKFLT",
];

/// Prints which of them arrive, until TERM ends it.
fn prints_others() -> String {
    let traps: Vec<String> = OTHERS
        .iter()
        .map(|signal| format!("trap 'echo {signal}' {signal}; "))
        .collect();
    traps.concat() + "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"
}

#[test]
fn signals_that_mean_something_to_the_command_reach_it_and_the_program_goes_on() {
    let (agent, prefix) = scene();
    let script = prints_others();
    let mut running = Running::start(agent.url(), &[&prefix, "--", "bash", "-c", &script]);
    assert_eq!(running.line(), "ready");
    for signal in OTHERS {
        running.signal(signal);
        assert_eq!(running.line(), *signal);
    }
    running.signal("TERM");
    let (code, events) = running.end();
    assert_eq!(code, Some(5));
    let passed = names(&events).iter().filter(|it| **it == "passed").count();
    assert_eq!(passed, OTHERS.len() + 1, "{events:?}");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn as_process_1_it_passes_signals_on_too() {
    let (agent, prefix) = scene();
    let script = prints_others();
    let ours = program(agent.url(), &["run", "--json"]);
    let container = unshare(&["--pid", "--fork", "--mount-proc"], &ours);
    let mut running = Running::spawn(container, &[&prefix, "--", "bash", "-c", &script]);
    assert_eq!(running.line(), "ready");
    let (first, _) = children(running.pid())[0];
    for signal in OTHERS {
        crate::support::send(signal, first);
        assert_eq!(running.line(), *signal);
    }
    crate::support::send("TERM", first);
    assert_eq!(running.end().0, Some(5));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_signal_that_can_not_be_passed_on_ends_the_command_with_grace_and_the_slot_is_given_back() {
    let (agent, prefix) = scene();
    let script = "trap 'echo TERM; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut running = Running::start(agent.url(), &[&prefix, "--", "sh", "-c", script]);
    assert_eq!(running.line(), "ready");
    // A realtime signal.
    running.signal("40");
    assert_eq!(running.line(), "TERM");
    let (code, events) = running.end();
    assert_eq!(code, Some(5));
    assert!(names(&events).contains(&"released"), "{events:?}");
    agent.assert_nothing_left(&prefix);
}

/// Those that a process can't or must not go on after, and those that stop one.
const LEFT_ALONE: &[&str] = &[
    "ILL", "BUS", "FPE", "SEGV", "SYS", "KILL", "STOP", "TSTP", "TTIN", "TTOU",
];

/// Those that mean something to this program alone.
const KEPT: &[&str] = &["URG", "PIPE", "XFSZ"];

#[test]
fn no_signal_that_a_process_can_survive_ends_the_program() {
    let (agent, prefix) = scene();
    // A realtime signal comes as TERM.
    let script = "
        signals=$(trap -l | tr -d ' ' | tr '\\t' '\\n' | grep -v 'SIGCHLD\\|SIGCONT')
        for s in $signals; do trap \"echo ${s#*)}\" ${s%)*}; done; trap 'exit 5' WINCH
        echo $signals; while :; do sleep 0.01; done";
    let mut running = Running::start(agent.url(), &[&prefix, "--", "bash", "-c", script]);
    let listed = running.line();
    let listed = listed
        .split(' ')
        .filter_map(|signal| signal.split_once(")SIG"));
    let listed: Vec<_> = listed.collect();
    assert!(listed.len() > 50, "{listed:?}");
    for (number, signal) in listed {
        if LEFT_ALONE.contains(&signal) || signal == "WINCH" {
            continue;
        }
        running.signal(number);
        let arrives = if signal.starts_with("RT") {
            "TERM"
        } else {
            signal
        };
        if !KEPT.contains(&signal) {
            assert_eq!(running.line(), format!("SIG{arrives}"));
        }
    }
    running.signal("WINCH");
    let (code, events) = running.end();
    assert_eq!(code, Some(5));
    assert!(
        crate::support::names(&events).contains(&"released"),
        "{events:?}"
    );
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_stop_while_the_command_starts_keeps_the_program_for_no_longer_than_the_command() {
    let (agent, prefix) = scene();
    // A program that hangs must not live on.
    let outer = ["timeout", "--signal=KILL", "120", "setsid"];
    for _ in 0..10 {
        let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
        holder.event("started");
        let ours = within(&outer, &program(agent.url(), &["run", "--json"]));
        let mut running = Running::spawn(ours, &[&prefix, "--", "sh", "-c", "exit 7"]);
        running.event("waiting");
        let (program, _) = children(running.pid())[0];
        let stops = format!("while kill -TSTP -- -{program}; do :; done 2>/dev/null");
        let mut stops = Command::new("bash").args(["-c", &stops]).spawn();
        let stops = stops.as_mut().expect("a shell");
        holder.signal("TERM");
        assert_eq!(holder.end().0, Some(143));
        running.event("started");
        stops.kill().and_then(|()| stops.wait()).expect("its end");
        wait_until("the end", || {
            let _ = Command::new("kill")
                .args(["-CONT", &program.to_string()])
                .stderr(Stdio::null())
                .status();
            !is_alive(program)
        });
        assert_eq!(running.end().0, Some(7));
    }
    agent.assert_nothing_left(&prefix);
}

#[test]
fn waiting_ends_at_once_and_leaves_nothing() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    for (signal, code) in [
        ("INT", 130),
        ("TERM", 143),
        ("HUP", 129),
        ("QUIT", 131),
        ("USR1", 138),
        ("ALRM", 142),
        ("ABRT", 134),
        ("STKFLT", 144),
        ("40", 168),
    ] {
        let mut waiter = Running::start(agent.url(), &[&prefix, "--", "true"]);
        waiter.event("waiting");
        wait_until("a waiter", || contenders(&agent, &prefix) == 2);
        // They end nothing.
        waiter.signal("WINCH");
        waiter.signal("CONT");
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
    let nohup = within(&["nohup"], &program(agent.url(), &["run", "--json"]));
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
