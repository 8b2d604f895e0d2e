//! What `endings` and `hasty` do with their arguments, before anything is measured.
#![allow(clippy::expect_used, reason = "helpers of tests are tests")]

use std::process::Command;

#[test]
fn what_is_no_number_is_refused_before_an_agent_starts() {
    for option in ["--runs", "--farewell-ms"] {
        let output = Command::new(env!("CARGO_BIN_EXE_endings"))
            .args([option, "many"])
            .env("CONSUL_BIN", "/no/such/consul")
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("invalid value 'many'"), "{told}");
    }
}

#[test]
fn a_program_in_a_hurry_needs_to_know_where_it_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_hasty"))
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(output.stdout.is_empty(), "it holds nothing");
}
