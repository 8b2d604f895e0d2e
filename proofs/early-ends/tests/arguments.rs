//! What `early-ends` does with its arguments, before it measures anything.
#![allow(clippy::expect_used, reason = "helpers of tests are tests")]

use std::process::{Command, Output};

fn early_ends(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_early-ends"));
    command.args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn the_rows_with_all_these_texts_are_listed() {
    let all = early_ends(&["--list"]);
    let some = early_ends(&["--list", "--row", "killed", "tokio"]);
    assert!(all.status.success() && some.status.success());
    let is_named = |row: &&str| row.contains("killed") && row.contains("tokio");
    let named: Vec<_> = text(&all.stdout).lines().filter(is_named).collect();
    assert_eq!(text(&some.stdout).lines().collect::<Vec<_>>(), named);
    assert!((1..text(&all.stdout).lines().count()).contains(&named.len()));
}

#[test]
fn a_row_that_does_not_exist_is_no_success() {
    let none = early_ends(&["--row", "no such row"]);
    assert_eq!(none.status.code(), Some(2));
    let told = text(&none.stderr);
    assert!(told.contains("no row is named so"), "{told}");
}
