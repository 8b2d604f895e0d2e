//! Indexes that go backwards.

use std::time::Duration;

use super::bench::{Bench, index, json, seconds};

#[test]
fn a_restoration_brings_back_entries_sessions_and_their_old_indexes() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    bench.put(&format!("/v1/kv/x/k?acquire={id}"), "old");
    let before = bench.get("/v1/kv/x/?recurse");
    let snapshot = bench.consul.snapshot();
    bench.put("/v1/kv/x/k", "new");
    bench.put("/v1/kv/x/other", "new");
    bench.consul.destroy_session(bench.now, &id);
    let between = index(&bench.get("/v1/kv/x/?recurse"));
    bench.consul.restore(bench.now, &snapshot);
    let after = bench.get("/v1/kv/x/?recurse");
    assert_eq!(json(&after), json(&before));
    assert!(index(&after) < between);
    assert_eq!(bench.consul.sessions().count(), 1);
}

#[test]
fn writes_after_a_restoration_go_on_from_the_present_index() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/k", "old");
    let snapshot = bench.consul.snapshot();
    bench.put("/v1/kv/k", "new");
    let before = bench.consul.entry("k").unwrap().modify_index();
    bench.consul.restore(bench.now, &snapshot);
    bench.put("/v1/kv/k", "newer");
    assert!(bench.consul.entry("k").unwrap().modify_index() > before);
}

#[test]
fn a_restoration_answers_blocking_queries_with_what_they_last_saw() {
    let mut bench = Bench::new();
    let snapshot = bench.consul.snapshot();
    bench.put("/v1/kv/k", "v");
    let seen = bench.get("/v1/kv/k");
    let exchange = bench.start(&format!("/v1/kv/k?index={}&wait=60s", index(&seen)));
    bench.consul.restore(bench.now, &snapshot);
    assert_eq!(bench.only_answer(), (exchange, seen));
    assert_eq!(bench.get("/v1/kv/k").status(), 404);
}

#[test]
fn a_restoration_starts_all_times_anew() {
    let mut bench = Bench::new();
    bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    let snapshot = bench.consul.snapshot();
    bench.pass(seconds(100));
    assert_eq!(bench.consul.sessions().count(), 0);
    bench.consul.restore(bench.now, &snapshot);
    bench.pass(Duration::from_millis(19_999));
    assert_eq!(bench.consul.sessions().count(), 1);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.consul.sessions().count(), 0);
}

#[test]
fn a_restoration_forgets_lock_delays() {
    let mut bench = Bench::new();
    let lost = bench.session(r#"{"NodeChecks":[]}"#);
    let other = bench.session(r#"{"NodeChecks":[]}"#);
    bench.put(&format!("/v1/kv/k?acquire={lost}"), "v");
    bench.consul.destroy_session(bench.now, &lost);
    assert_eq!(bench.consul.lock_delays().count(), 1);
    let snapshot = bench.consul.snapshot();
    bench.consul.restore(bench.now, &snapshot);
    assert_eq!(bench.consul.lock_delays().count(), 0);
    let acquired = bench.put(&format!("/v1/kv/k?acquire={other}"), "v");
    assert_eq!(acquired.body(), b"true");
}

#[test]
fn a_reset_of_the_index_keeps_contents_and_order() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"NodeChecks":[]}"#);
    for round in 0..20 {
        bench.put("/v1/kv/x/a", &round.to_string());
    }
    bench.put(&format!("/v1/kv/x/b?acquire={id}"), "v");
    bench.delete("/v1/kv/y");
    let before = index(&bench.get("/v1/kv/x/?recurse"));
    bench.consul.reset_index(bench.now);
    let after = index(&bench.get("/v1/kv/x/?recurse"));
    assert!(after < before);
    let entries: Vec<_> = bench.consul.entries("x/").cloned().collect();
    assert_eq!(entries[0].value(), b"19");
    assert!(entries[0].create_index() < entries[0].modify_index());
    assert!(entries[0].modify_index() < entries[1].create_index());
    assert_eq!(after, entries[1].modify_index());
    assert_eq!(entries[1].session(), Some(id.as_str()));
    bench.put("/v1/kv/x/c", "v");
    assert!(index(&bench.get("/v1/kv/x/?recurse")) > after);
}

#[test]
fn a_query_that_waits_for_an_index_from_before_a_reset_waits_it_out() {
    let mut bench = Bench::new();
    for round in 0..20 {
        bench.put("/v1/kv/k", &round.to_string());
    }
    let at = index(&bench.get("/v1/kv/k"));
    let exchange = bench.start(&format!("/v1/kv/k?index={at}&wait=16s"));
    bench.consul.reset_index(bench.now);
    let write =
        semaphore_core::adapter::Request::new(semaphore_core::adapter::Method::Put, "/v1/kv/k");
    bench.consul.submit(bench.now, &write);
    bench.consul.poll_answer().unwrap();
    assert_eq!(bench.consul.poll_answer(), None);
    bench.pass(seconds(17));
    let (answered, response) = bench.only_answer();
    assert_eq!(answered, exchange);
    assert!(index(&response) < at);
}
