//! The check of the queue's order fires where it must.
#![allow(clippy::expect_used, reason = "helpers of tests are tests")]

use std::process::Command;

const SCENE: &str = "limit 1, callers 1+1, together, round trips: none";

/// The exit code, and the printed text.
fn explore(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_explore"))
        .args(["--small", "--only", SCENE])
        .args(arguments)
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    (output.status.code(), text)
}

#[test]
fn a_claim_before_a_waiter_who_is_known_to_stand_ahead_is_found() {
    let (code, text) = explore(&["--defect", "out-of-turn"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("out-of-turn: Queue: "), "{text}");
    let (code, text) = explore(&["--states", "2000"]);
    assert_eq!(code, Some(0), "{text}");
}
