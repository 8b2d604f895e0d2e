//! Deliberate defects that a scene finds by the promise that they break.
#![allow(clippy::expect_used, reason = "helpers of tests are tests")]

use std::process::Command;

/// The exit code, and the printed text.
fn explore(scene: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_explore"))
        .args(["--small", "--only", scene])
        .args(arguments)
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    (output.status.code(), text)
}

#[test]
fn a_claim_before_a_waiter_who_is_known_to_stand_ahead_is_found() {
    let scene = "limit 1, callers 1+1, together, round trips: none";
    let (code, text) = explore(scene, &["--defect", "out-of-turn"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("out-of-turn: Queue: "), "{text}");
    let (code, text) = explore(scene, &["--states", "2000"]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_neighbour_that_destroys_the_session_of_a_holder_when_it_goes_is_found() {
    let scene = "election, candidates 1, round trips, beside neighbours: none";
    let defect = "session-destroyed-under-others";
    let (code, text) = explore(scene, &["--defect", defect]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with(&format!("{defect}: L4: ")), "{text}");
}

/// Of a slot that is handed over, only the contender key is written.
#[test]
fn a_second_grant_with_the_token_of_the_first_is_found_although_the_record_stays() {
    let scene = "limit 1, callers 2, round trips: none";
    let (code, text) = explore(scene, &["--defect", "token-of-queue"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("token-of-queue: S5: "), "{text}");
}

#[test]
fn a_record_that_nobody_can_read_and_that_is_replaced_is_found() {
    let scene = "limit 1, callers 1, garbage: none";
    let (code, text) = explore(scene, &["--defect", "garbage-overwritten"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("garbage-overwritten: S4: "), "{text}");
}
