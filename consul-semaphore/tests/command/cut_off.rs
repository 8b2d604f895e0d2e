//! If a program is cut off, its command is dead before the next one runs. The cases: a server of a
//! real cluster dies and takes sessions with it, the network falls silent, and the supervisor
//! stands still.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use real_agent::{Agent, Cluster, Proxy};
use tempfile::TempDir;

use crate::support::{Running, is_alive, names, wait_until};

/// Writes the time into a file again and again, and does not end when it is told to.
const BEATS: &str =
    "trap '' TERM; while :; do date +%s%N >\"$0.new\"; mv \"$0.new\" \"$0\"; sleep 0.02; done";

/// Two commands that want the same slot, each through a separate server.
struct Pair {
    first: Running,
    command: u32,
    next: Running,
    beats: PathBuf,
    started: PathBuf,
}

impl Pair {
    /// The first one runs, and the next one waits.
    fn start(prefix: &str, on_lost: &str, folder: &Path, first: &str, next: &str) -> Self {
        let name = prefix.replace('/', "-");
        let beats = folder.join(format!("{name}-beats"));
        let started = folder.join(format!("{name}-started"));
        let shown = beats.to_string_lossy();
        let short = [
            "--ttl",
            "10s",
            "--grace",
            "1s",
            "--on-lost",
            on_lost,
            prefix,
            "--",
        ];
        let beating = ["sh", "-c", BEATS, &shown];
        let arguments: Vec<&str> = short.into_iter().chain(beating).collect();
        let mut first = Running::start(first, &arguments);
        let command = first.command();
        wait_until("a beat", || nanos(&beats).is_some());
        let script = "date +%s%N >\"$0.new\"; mv \"$0.new\" \"$0\"";
        let shown = started.to_string_lossy();
        let arguments = ["--ttl", "10s", prefix, "--", "sh", "-c", script, &shown];
        let mut next = Running::start(next, &arguments);
        next.event("waiting");
        Self {
            first,
            command,
            next,
            beats,
            started,
        }
    }
}

fn nanos(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.trim().parse().ok()
}

#[test]
fn a_command_whose_server_dies_is_dead_before_the_next_one_runs() {
    let mut cluster = Cluster::start_with(&Agent::builder().reaped()).expect("a cluster");
    let leader = cluster.wait_for_leader().expect("a leader");
    // Its end causes no election.
    let theirs = (leader + 1) % real_agent::SERVERS;
    let proxy = Proxy::start(cluster.server(theirs).addr()).expect("a proxy");
    let folder = TempDir::new().expect("a folder");
    let (cut_off, other) = (proxy.url(), cluster.server(leader).url());
    let pair = |prefix, on_lost| Pair::start(prefix, on_lost, folder.path(), &cut_off, &other);
    let mut ends = pair("command/ends", "term");
    let goes_on = pair("command/goes-on", "ignore");

    proxy.silence();
    cluster.kill(theirs).expect("it runs");
    ends.first.event("told");
    ends.first.event("ended");
    let last_beat = nanos(&ends.beats).expect("a beat");
    let (code, events) = ends.first.end();
    assert_eq!(code, Some(120), "{events:?}");
    assert!(names(&events).contains(&"killed"), "{events:?}");
    assert_eq!(ends.next.end().0, Some(0));
    // The program did not report its end too early.
    assert_eq!(nanos(&ends.beats), Some(last_beat));
    let began = nanos(&ends.started).expect("it ran");
    let between = Duration::from_nanos(began.checked_sub(last_beat).expect("not at once"));
    println!("the next command ran {between:?} after the first one's last beat");

    // Without that care, two commands run at the same time. This shows that the measurement can
    // fail.
    assert_eq!(goes_on.next.end().0, Some(0));
    let began = nanos(&goes_on.started).expect("it ran");
    wait_until("a later beat", || {
        nanos(&goes_on.beats).is_some_and(|beat| beat > began)
    });
    drop(goes_on.first);
    wait_until("its end", || !is_alive(goes_on.command));
}

/// Both cases at the same time, since both wait until sessions and lock delays end.
#[test]
fn who_is_cut_off_or_has_a_supervisor_that_stands_still_is_dead_before_the_next_one_runs() {
    let agent = Agent::start().expect("an agent");
    let proxy = Proxy::start(agent.addr()).expect("a proxy");
    let start = |url: &str, prefix: &str, script: &str| {
        let command = ["sh", "-c", script];
        let short = ["--ttl", "10s", "--grace", "1s", prefix, "--"];
        let arguments: Vec<&str> = short.into_iter().chain(command).collect();
        Running::start(url, &arguments)
    };
    let stubborn = "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000";
    let mut cut_off = start(&proxy.url(), "command/cut-off", stubborn);
    let mut stopped = start(&agent.url(), "command/stopped", stubborn);
    let processes = |running: &mut Running| {
        let command = running.command();
        let grandchild = running.line().parse().expect("a process id");
        [command, grandchild]
    };
    let of_cut_off = processes(&mut cut_off);
    let of_stopped = processes(&mut stopped);
    let runs = "echo runs";
    let mut after_cut_off = start(&agent.url(), "command/cut-off", runs);
    let mut after_stopped = start(&agent.url(), "command/stopped", runs);
    after_cut_off.event("waiting");
    after_stopped.event("waiting");

    proxy.silence();
    stopped.signal("STOP");
    cut_off.event("told");
    cut_off.event("killed");
    cut_off.event("ended");
    assert!(!of_cut_off.into_iter().any(is_alive));
    let (code, events) = cut_off.end();
    assert_eq!(code, Some(120), "{events:?}");
    after_stopped.event("started");
    assert!(!of_stopped.into_iter().any(is_alive));
    assert_eq!(after_stopped.line(), "runs");
    assert_eq!(after_stopped.end().0, Some(0));
    assert_eq!(after_cut_off.end().0, Some(0));
    stopped.signal("CONT");
    assert_eq!(stopped.end().0, Some(120));
}
