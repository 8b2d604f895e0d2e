//! Runs the program as `scripts/bench` does, with the peer alone, which needs only Consul.

// Helpers are part of the tests.
#![allow(clippy::expect_used)]

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    bench.args(args).output().expect("the program starts")
}

#[test]
fn the_peer_is_measured_and_written_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("docs");
    let to = out.to_str().expect("text");
    let ran = bench(&["--only", "peer", "--quick", "--out", to]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");

    let shown = String::from_utf8(ran.stdout).expect("text");
    let page = std::fs::read_to_string(out.join("COST.md")).expect("a page");
    let rows: Vec<_> = shown.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + 4, "{shown}");
    for row in rows {
        assert!(page.contains(row), "{row}");
        assert!(!row.contains('–'), "{row}");
    }
    assert!(
        page.contains("scripts/bench --only peer --quick\n"),
        "{page}"
    );
    assert!(!page.contains(to), "{page}");
    let plot = std::fs::read_to_string(out.join("cost.svg")).expect("a plot");
    assert!(plot.starts_with("<svg"), "{plot}");
}

#[test]
fn a_scene_that_is_none_is_refused() {
    let ran = bench(&["--only", "everything"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(ran.stdout.is_empty());
}
