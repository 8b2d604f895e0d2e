//! The guard outlives its supervisor, kills the command, and ends the session.

use crate::support::{
    Running, children, contenders, is_alive, program, scene, send, stat, wait_until,
};

/// The guard of a program, once it is one.
fn guard(of: u32) -> u32 {
    let mut guard = None;
    wait_until("a guard", || {
        let children = children(of).into_iter();
        let mut guards = children.filter(|(pid, line)| {
            line.contains("__guard") && is_alive(*pid) && session(*pid) == Some(pid.to_string())
        });
        guard = guards.next().map(|(pid, _)| pid);
        guard.is_some()
    });
    guard.expect("a guard")
}

fn session(pid: u32) -> Option<String> {
    stat(pid).map(|stat| stat[3].clone())
}

/// A command that has started another process, and this process.
fn start(url: &str, prefix: &str) -> (Running, u32) {
    let script = "sleep 1000 & echo $!; wait";
    let arguments = ["--ttl", "1h", prefix, "--", "sh", "-c", script];
    let mut running = Running::start(url, &arguments);
    running.event("started");
    let grandchild = running.line().parse().expect("a process id");
    (running, grandchild)
}

#[test]
fn whoever_kills_all_processes_of_the_programs_name_leaves_the_guard() {
    let (agent, prefix) = scene();
    let (running, grandchild) = start(agent.url(), &prefix);
    let guard = guard(running.pid());
    let name = std::fs::read_to_string(format!("/proc/{guard}/comm")).expect("a name");
    assert_eq!(name, "lease-guard\n");
    assert_ne!(session(guard), session(running.pid()));
    // What `pkill -9 -f` would find.
    let of_name = |(_, line): &(u32, String)| line.contains("consul-semaphore");
    for (pid, _) in children(running.pid()).into_iter().filter(of_name) {
        send("KILL", pid);
    }
    running.signal("KILL");
    assert_eq!(running.end().0, None);
    wait_until("the end of all", || !is_alive(grandchild));
    wait_until("the guard's end", || !is_alive(guard));
}

#[test]
fn a_guard_that_was_killed_is_replaced() {
    let (agent, prefix) = scene();
    let (running, grandchild) = start(agent.url(), &prefix);
    let first = guard(running.pid());
    send("KILL", first);
    wait_until("its end", || !is_alive(first));
    guard(running.pid());
    running.signal("KILL");
    assert_eq!(running.end().0, None);
    wait_until("the end of all", || !is_alive(grandchild));
}

#[test]
fn the_session_of_a_supervisor_that_was_killed_ends_long_before_its_ttl_is_over() {
    let (agent, prefix) = scene();
    let (running, grandchild) = start(agent.url(), &prefix);
    assert_eq!(contenders(&agent, &prefix), 1);
    running.signal("KILL");
    assert_eq!(running.end().0, None);
    wait_until("the session's end", || contenders(&agent, &prefix) == 0);
    assert!(!is_alive(grandchild));
}

#[test]
fn the_next_one_leads_as_soon_as_the_command_of_a_supervisor_that_was_killed_is_dead() {
    let (agent, key) = scene();
    let elect = |script: &str| {
        let ours = program(agent.url(), &["elect", "run", "--json"]);
        Running::spawn(ours, &["--ttl", "1h", &key, "--", "sh", "-c", script])
    };
    let mut first = elect("sleep 1000 & echo $!; wait");
    let command = first.command();
    let grandchild = first.line();
    let asks = format!("kill -0 {command} && exit 9; kill -0 {grandchild} && exit 9; exit 0");
    let mut next = elect(&asks);
    next.event("waiting");
    first.signal("KILL");
    assert_eq!(first.end().0, None);
    assert_eq!(next.end().0, Some(0), "both ran");
    agent.assert_nothing_left(&key);
}
