//! On a real cluster: a server dies, its sessions end before their time, and whoever runs a command by it is cut off. The command
//! is dead before the next one runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use real_agent::{Agent, Cluster, Proxy};
use tempfile::TempDir;

use crate::support::{Running, is_alive, names, wait_until};

/// Writes the time into a file again and again, and does not end when it is told to.
const BEATS: &str =
    "trap '' TERM; while :; do date +%s%N >\"$0.new\"; mv \"$0.new\" \"$0\"; sleep 0.02; done";

/// Two who want the same slot, each by a server of its own.
struct Pair {
    first: Running,
    command: u32,
    next: Running,
    beats: PathBuf,
    started: PathBuf,
}

impl Pair {
    /// The first one runs, the next one waits.
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
    // Its death is no election's cause.
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
    // It was dead when it was said to be.
    assert_eq!(nanos(&ends.beats), Some(last_beat));
    let began = nanos(&ends.started).expect("it ran");
    let between = Duration::from_nanos(began.checked_sub(last_beat).expect("not at once"));
    println!("the next command ran {between:?} after the first one's last beat");

    // Without that care two run at once: what was measured can fail.
    assert_eq!(goes_on.next.end().0, Some(0));
    let began = nanos(&goes_on.started).expect("it ran");
    wait_until("a later beat", || {
        nanos(&goes_on.beats).is_some_and(|beat| beat > began)
    });
    drop(goes_on.first);
    wait_until("its end", || !is_alive(goes_on.command));
}
