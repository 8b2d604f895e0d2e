//! `chaos check DIR` names the violations, and its exit code says whether there was any.
#![allow(clippy::expect_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chaos::record::{End, Folder, Hold, Place, Run, What};
use chaos::{Line, Moment};
use serde::Serialize;

/// The exit code, and the printed text.
fn check(folder: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .arg("check")
        .arg(folder)
        .output()
        .expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    (output.status.code(), text)
}

/// The logs of two `consul lock` that hold the key of an election: one from 100 to 200, one
/// starting at `from`.
fn logs(folder: &Path, from: u64) {
    let files = Folder(folder.to_owned());
    let run = Run {
        seed: 1,
        release: None,
        acls: false,
        chaos: Duration::from_mins(1),
        ttl: Duration::from_secs(10),
        lock_delay: Some(Duration::from_secs(1)),
        reaped: false,
        agents: 0,
        places: vec![Place {
            what: What::Election,
            prefix: "chaos/elected".to_owned(),
            limit: 1,
            contenders: 1,
        }],
        clients: Vec::new(),
    };
    fs::write(files.run(), json(&run)).expect("a file");
    fs::write(files.end(), json(&End::default())).expect("a file");
    let held = |name: &str, from, until| {
        let (name, prefix) = (name.to_owned(), "chaos/elected".to_owned());
        let began = Hold::Began {
            name: name.clone(),
            prefix,
        };
        let line = |at, event| {
            json(&Line {
                at: Moment(at),
                event,
            }) + "\n"
        };
        line(from, began) + &line(until, Hold::Ended { name })
    };
    let locks = held("one", 100, 200) + &held("other", from, from + 100);
    fs::write(files.locks(), locks).expect("a file");
    for log in [files.deeds(), files.sightings()] {
        fs::write(log, "").expect("a file");
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("JSON")
}

#[test]
fn nothing_violated_is_0() {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), 200);
    let (code, text) = check(folder.path());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("violations: 0\n"), "{text}");
}

#[test]
fn two_leaders_at_once_are_1_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), 199);
    let (code, text) = check(folder.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("VIOLATED on chaos/elected: S1 "), "{text}");
    assert!(text.contains("one ") && text.contains("other "), "{text}");
}

#[test]
fn no_logs_are_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, text) = check(folder.path());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("reading a log failed"), "{text}");
}

#[test]
fn a_run_on_a_release_that_is_not_found_is_2_and_says_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["run", "--minutes", "0.1", "--release", "0.1", "--logs"])
        .arg(folder.path())
        .output()
        .expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("no Consul 0.1 was found"), "{text}");
}
