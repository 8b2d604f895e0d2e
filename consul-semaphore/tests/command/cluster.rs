//! On a real cluster: a server dies, its sessions end before their time, and whoever runs a command by it is cut off. The command
//! is dead before the next one runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use real_agent::{Agent, Cluster, Proxy};

use crate::support::{Running, names, wait_until};

/// Writes the time into a file again and again, and does not end when it is told to.
const BEATS: &str =
    "trap '' TERM; while :; do date +%s%N >\"$0.new\"; mv \"$0.new\" \"$0\"; sleep 0.02; done";

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
    let folder = std::env::temp_dir().join(format!("consul-semaphore-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let beats = folder.join("beats");
    let started = folder.join("started");

    let prefix = "command/cluster";
    let shown = beats.to_string_lossy();
    let arguments = [
        "--ttl", "10s", "--grace", "1s", prefix, "--", "sh", "-c", BEATS, &shown,
    ];
    let mut first = Running::start(&proxy.url(), &arguments);
    first.event("started");
    wait_until("a beat", || nanos(&beats).is_some());

    let script = "date +%s%N >\"$0.new\"; mv \"$0.new\" \"$0\"";
    let shown = started.to_string_lossy();
    let arguments = ["--ttl", "10s", prefix, "--", "sh", "-c", script, &shown];
    let mut next = Running::start(&cluster.server(leader).url(), &arguments);
    next.event("waiting");

    proxy.silence();
    cluster.kill(theirs).expect("it runs");
    first.event("told");
    first.event("ended");
    let last_beat = nanos(&beats).expect("a beat");
    let (code, events) = first.end();
    assert_eq!(code, Some(120), "{events:?}");
    assert!(names(&events).contains(&"killed"), "{events:?}");
    assert_eq!(next.end().0, Some(0));
    // It was dead when it was said to be.
    assert_eq!(nanos(&beats), Some(last_beat));
    let began = nanos(&started).expect("it ran");
    let between = Duration::from_nanos(began.checked_sub(last_beat).expect("not at once"));
    println!("the next command ran {between:?} after the first one's last beat");
    fs::remove_dir_all(&folder).expect("it is there");
}
