//! Without a leader, and after the election of a new one.

use std::time::Duration;

use super::bench::{Bench, index, seconds, text};

#[test]
fn without_a_leader_every_request_is_refused() {
    let mut bench = Bench::new();
    let id = bench.session("");
    bench.put("/v1/kv/k", "v");
    bench.consul.lose_leader(bench.now);
    let refusals = [
        bench.get("/v1/kv/k"),
        bench.get("/v1/kv/k?consistent"),
        bench.get("/v1/kv/?recurse"),
        bench.put("/v1/kv/k", "w"),
        bench.delete("/v1/kv/k"),
        bench.put("/v1/txn", r#"[{"KV":{"Verb":"get","Key":"k"}}]"#),
        bench.put("/v1/txn", r#"[{"KV":{"Verb":"set","Key":"k"}}]"#),
        bench.put("/v1/session/create", ""),
        bench.put(&format!("/v1/session/renew/{id}"), ""),
        bench.put(&format!("/v1/session/destroy/{id}"), ""),
        bench.get(&format!("/v1/session/info/{id}")),
        bench.get("/v1/session/list"),
    ];
    for refusal in refusals {
        assert_eq!(refusal.status(), 500);
        assert_eq!(text(&refusal), "No cluster leader");
    }
    assert_eq!(bench.consul.entry("k").unwrap().value(), b"v");
    assert_eq!(bench.consul.sessions().count(), 1);
}

#[test]
fn a_bad_request_is_refused_as_bad_with_or_without_a_leader() {
    let mut bench = Bench::new();
    bench.consul.lose_leader(bench.now);
    assert_eq!(bench.get("/v1/kv/k?index=x").status(), 400);
    assert_eq!(bench.get("/v1/kv//k").status(), 301);
    assert_eq!(bench.put("/v1/session/create", "{bad").status(), 400);
}

#[test]
fn a_stale_read_goes_without_a_leader_and_tells_its_age() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/k", "v");
    bench.consul.lose_leader(bench.now);
    bench.pass(Duration::from_millis(1500));
    let read = bench.get("/v1/kv/k?stale");
    assert_eq!(read.status(), 200);
    assert_eq!(read.header("X-Consul-Knownleader"), Some("false"));
    assert_eq!(read.header("X-Consul-Lastcontact"), Some("1500"));
}

#[test]
fn the_leader_is_nobody_until_there_is_one_again() {
    let mut bench = Bench::new();
    assert!(text(&bench.get("/v1/status/leader")).len() > 2);
    bench.consul.lose_leader(bench.now);
    assert_eq!(text(&bench.get("/v1/status/leader")), r#""""#);
    bench.consul.elect_leader(bench.now);
    assert!(text(&bench.get("/v1/status/leader")).len() > 2);
    assert_eq!(text(&bench.put("/v1/kv/k", "v")), "true");
}

#[test]
fn no_session_expires_without_a_leader_and_a_new_one_starts_all_times_anew() {
    let mut bench = Bench::new();
    bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    bench.pass(seconds(19));
    bench.consul.lose_leader(bench.now);
    assert_eq!(bench.consul.poll_timeout(), None);
    bench.pass(seconds(60));
    bench.consul.elect_leader(bench.now);
    bench.pass(Duration::from_millis(19_999));
    assert_eq!(bench.consul.sessions().count(), 1);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.consul.sessions().count(), 0);
}

#[test]
fn an_election_in_passing_starts_all_times_anew_too() {
    let mut bench = Bench::new();
    bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    bench.pass(seconds(19));
    bench.consul.elect_leader(bench.now);
    bench.pass(seconds(19));
    assert_eq!(bench.consul.sessions().count(), 1);
}

#[test]
fn a_blocking_query_outlasts_an_election() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/k", "v");
    let at = index(&bench.get("/v1/kv/k"));
    let exchange = bench.start(&format!("/v1/kv/k?index={at}&wait=60s"));
    bench.consul.lose_leader(bench.now);
    bench.pass(seconds(5));
    bench.consul.elect_leader(bench.now);
    assert_eq!(bench.consul.poll_answer(), None);
    assert_eq!(bench.consul.waiting(), 1);
    let write =
        semaphore_core::adapter::Request::new(semaphore_core::adapter::Method::Put, "/v1/kv/k");
    bench.consul.submit(bench.now, &write);
    bench.consul.poll_answer().unwrap();
    assert_eq!(bench.only_answer().0, exchange);
}
