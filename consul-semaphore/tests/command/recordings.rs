//! Recordings are replayed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Running, closed_port, run, scene};

#[test]
fn a_run_that_was_recorded_is_told_again_the_same_each_time() {
    let (agent, prefix) = scene();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let path = file.to_str().expect("text");
    let ran = run(
        agent.url(),
        &["run", "--record", path, &prefix, "--", "true"],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may not read it");

    let nowhere = closed_port();
    let told = run(&nowhere, &["replay", path]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let first = told.stdout.lines().next().unwrap_or_default();
    assert!(first.contains(&prefix), "{first}");
    assert_eq!(run(&nowhere, &["replay", path]).stdout, told.stdout);

    let events = run(&nowhere, &["replay", "--only", "event", path]);
    assert_eq!(events.code, Some(0), "{events:?}");
    let lines: Vec<&str> = events.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.contains("event")), "{lines:?}");
    assert!(lines[0].contains("is granted"), "{lines:?}");
    assert!(lines[1].contains("is done"), "{lines:?}");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_lead_that_was_recorded_is_told_again() {
    let (agent, prefix) = scene();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let path = file.to_str().expect("text");
    let key = format!("{prefix}/leader");
    let arguments = ["elect", "run", "--record", path, &key, "--", "true"];
    let ran = run(agent.url(), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = run(&closed_port(), &["replay", path]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.contains("is granted"), "{told:?}");
}

#[test]
fn a_run_that_was_killed_has_recorded_what_happened_until_then() {
    let (agent, prefix) = scene();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let path = file.to_str().expect("text");
    let arguments = ["--record", path, &prefix, "--", "sleep", "1000"];
    let mut running = Running::start(agent.url(), &arguments);
    running.event("started");
    running.signal("KILL");
    running.end();
    let told = run(&closed_port(), &["replay", "--only", "event", path]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.contains("is granted"), "{told:?}");
}

#[test]
fn what_is_no_recording_has_an_exit_code() {
    let nowhere = closed_port();
    let folder = tempfile::tempdir().expect("a folder");
    let written = |content: &[u8]| {
        let file = folder.path().join("file");
        fs::write(&file, content).expect("it is written");
        file.to_str().expect("text").to_owned()
    };
    run(&nowhere, &["replay", &written(b"")]).assert(30, "empty");
    run(&nowhere, &["replay", &written(b"some words\n")]).assert(30, "line 1");
    run(&nowhere, &["replay", &written(b"\xff\xfe\n")]).assert(30, "line 1");
    let missing = folder.path().join("missing");
    let missing = missing.to_str().expect("text");
    run(&nowhere, &["replay", missing]).assert(125, "can't be read");
}

#[test]
fn a_recording_that_was_cut_off_or_is_another_versions_is_told_apart() {
    let (agent, prefix) = scene();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let path = file.to_str().expect("text");
    let ran = run(
        agent.url(),
        &["run", "--record", path, &prefix, "--", "true"],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let whole = fs::read_to_string(&file).expect("text");
    fs::write(&file, &whole[..whole.len() - 5]).expect("it is written");
    run("", &["replay", path]).assert(30, "cut off");
    // Without one of the answers, the machine sends something else than before.
    let is_answer = |line: &&str| line.contains("answer");
    let answer = whole.lines().find(is_answer).expect("an answer");
    fs::write(&file, whole.replacen(&format!("{answer}\n"), "", 1)).expect("it is written");
    run("", &["replay", path]).assert(31, "another version");
}

#[test]
fn a_reader_that_could_stop_the_renewals_is_refused_as_the_place_of_a_recording() {
    // Its standard error is a pipe here.
    let record = ["run", "--record", "/dev/stderr", "p", "--", "true"];
    run(&closed_port(), &record).assert(125, "give --record a file");
}

#[test]
fn a_recording_that_can_not_be_written_is_told_before_anything_is_sent() {
    let record = ["run", "--record", "/no/such/folder", "p", "--", "true"];
    run(&closed_port(), &record).assert(125, "can't be written");
}
