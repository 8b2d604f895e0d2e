//! What the command leaves behind while it runs is reaped then.

use std::path::Path;

use crate::support::{Running, program, run_with, scene, unshare, wait_until, within};

/// How often a race is tried.
const RUNS: usize = 20;

/// Forks helpers twice, each of which prints its process id, and then reads a line. One is ended by
/// a realtime signal, and one stops for a while.
const FORKS: &str = "
    for i in $(seq 30); do (sh -c 'echo $$' & ); done
    (sh -c 'echo $$; kill -40 $$' & )
    (sh -c 'echo $$; kill -STOP $$' & )
    sleep 0.1; kill -CONT 0
    while :; do sleep 0.01; done";

#[test]
fn helpers_that_the_command_forks_twice_are_reaped_while_it_runs_and_its_own_code_is_kept() {
    let (agent, prefix) = scene();
    let forks = format!("trap 'exit 7' USR1; {FORKS}");
    let mut running = Running::start(agent.url(), &[&prefix, "--", "bash", "-c", &forks]);
    let helpers: Vec<String> = (0..32).map(|_| running.line()).collect();
    // A zombie is still listed.
    wait_until("their end", || {
        let mut helpers = helpers.iter();
        !helpers.any(|pid| Path::new("/proc").join(pid).exists())
    });
    running.signal("USR1");
    assert_eq!(running.end().0, Some(7));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn the_commands_own_code_is_kept_though_orphans_die_of_realtime_signals_while_it_ends() {
    let (agent, prefix) = scene();
    // They are ended together with the command.
    let script = "
        orphans=$(for i in $(seq 100); do (sleep 1000 >/dev/null & echo $!); done)
        kill -40 $orphans; exit 7";
    for _ in 0..RUNS {
        let running = Running::start(agent.url(), &[&prefix, "--", "bash", "-c", script]);
        let (code, events) = running.end();
        assert_eq!(code, Some(7), "{events:?}");
    }
    agent.assert_nothing_left(&prefix);
}

#[test]
fn as_process_1_it_reaps_orphans_of_others_too() {
    let (agent, prefix) = scene();
    // A separate session is what a helper of `docker exec` has. The command counts them, since it
    // knows their numbers.
    let script = "
        for i in $(seq 30); do (setsid sh -c 'echo $$ >>\"$0\"' \"$0\" & ); done
        while [ $(wc -l <\"$0\") -lt 30 ]; do sleep 0.01; done
        for pid in $(cat \"$0\"); do while [ -e /proc/$pid ]; do sleep 0.01; done; done
        exit 7";
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("helpers");
    std::fs::write(&file, "").expect("a file");
    let ours = program(agent.url(), &["run", "--json"]);
    let container = unshare(&["--pid", "--fork", "--mount-proc"], &ours);
    let file = file.to_string_lossy();
    let running = Running::spawn(container, &[&prefix, "--", "sh", "-c", script, &file]);
    assert_eq!(running.end().0, Some(7));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn it_ends_with_the_command_also_if_its_parent_ignores_the_ends_of_children() {
    let (agent, prefix) = scene();
    let script = "sleep 0.3; exit 7";
    let ours = program(agent.url(), &["run", &prefix, "--", "sh", "-c", script]);
    // A guard that is not dismissed would keep the program for ever.
    let limit = ["timeout", "--signal=KILL", "60"];
    // `dash` does not ignore it.
    let ignores = ["bash", "-c", "trap '' CHLD; exec \"$0\" \"$@\""];
    let ran = run_with(within(&limit, &within(&ignores, &ours)), "");
    ran.assert(7, "");
    agent.assert_nothing_left(&prefix);
}
