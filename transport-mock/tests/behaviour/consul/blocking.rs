//! How long blocking queries wait, and in what order they are answered.

use std::time::Duration;

use super::bench::{Bench, index, json, just_under, seconds};

#[test]
fn a_wait_ends_after_its_length_and_up_to_a_sixteenth_more() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/k", "v");
    for _ in 0..50 {
        let exchange = bench.start("/v1/kv/k?index=1000&wait=16s");
        let ends = bench.consul.poll_timeout().unwrap();
        let wait = ends.saturating_since(bench.now);
        assert!((seconds(16)..seconds(17)).contains(&wait), "{wait:?}");
        bench.pass(just_under(wait));
        assert_eq!(bench.consul.poll_answer(), None);
        bench.pass(Duration::from_nanos(1));
        let (answered, response) = bench.only_answer();
        assert_eq!((answered, response.status()), (exchange, 200));
    }
}

#[test]
fn a_wait_is_five_minutes_unless_told_and_ten_at_most() {
    let mut bench = Bench::new();
    for (wait, minutes) in [("", 5), ("&wait=0s", 5), ("&wait=-1s", 5), ("&wait=1h", 10)] {
        let exchange = bench.start(&format!("/v1/kv/k?index=1{wait}"));
        let length = bench
            .consul
            .poll_timeout()
            .unwrap()
            .saturating_since(bench.now);
        let shortest = seconds(minutes * 60);
        assert!(
            (shortest..shortest * 17 / 16).contains(&length),
            "{wait}: {length:?}"
        );
        bench.consul.abandon(exchange);
    }
}

#[test]
fn jitter_differs_between_queries() {
    let mut bench = Bench::new();
    bench.start("/v1/kv/k?index=1&wait=160s");
    let first = bench.consul.poll_timeout().unwrap();
    let mut other = Bench::new();
    other.put("/v1/session/create", "");
    other.start("/v1/kv/k?index=1&wait=160s");
    assert_ne!(first, other.consul.poll_timeout().unwrap());
}

#[test]
fn the_write_is_answered_before_the_queries_it_wakes_and_those_oldest_first() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/x/k", "v");
    let at = index(&bench.get("/v1/kv/x/k"));
    let first = bench.start(&format!("/v1/kv/x/?recurse&index={at}"));
    let second = bench.start(&format!("/v1/kv/x/k?index={at}"));
    let write =
        semaphore_core::adapter::Request::new(semaphore_core::adapter::Method::Put, "/v1/kv/x/k");
    let write = bench.consul.submit(bench.now, &write);
    let order: Vec<_> = std::iter::from_fn(|| bench.consul.poll_answer())
        .map(|(exchange, _)| exchange)
        .collect();
    assert_eq!(order, [write, first, second]);
}

#[test]
fn a_query_whose_client_hung_up_is_never_answered() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/k", "v");
    let at = index(&bench.get("/v1/kv/k"));
    let exchange = bench.start(&format!("/v1/kv/k?index={at}&wait=10s"));
    assert_eq!(bench.consul.waiting(), 1);
    bench.consul.abandon(exchange);
    assert_eq!(bench.consul.waiting(), 0);
    assert_eq!(bench.consul.poll_timeout(), None);
    bench.put("/v1/kv/k", "w");
    bench.pass(seconds(20));
    assert_eq!(bench.consul.poll_answer(), None);
}

#[test]
fn an_answer_that_is_ready_can_still_be_abandoned_and_the_write_stays() {
    let mut bench = Bench::new();
    let write =
        semaphore_core::adapter::Request::new(semaphore_core::adapter::Method::Put, "/v1/kv/k");
    let exchange = bench.consul.submit(bench.now, &write.with_body("v"));
    bench.consul.abandon(exchange);
    assert_eq!(bench.consul.poll_answer(), None);
    assert_eq!(bench.consul.entry("k").unwrap().value(), b"v");
}

#[test]
fn a_query_goes_on_waiting_while_its_prefix_changes_below_its_index() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/x/k", "v");
    let exchange = bench.start("/v1/kv/x/k?index=1000&wait=60s");
    bench.put("/v1/kv/x/k", "w");
    assert_eq!(bench.consul.waiting(), 1);
    bench.pass(seconds(64));
    let (answered, response) = bench.only_answer();
    assert_eq!(answered, exchange);
    assert_eq!(json(&response)[0]["Value"], "dw==");
}

#[test]
fn early_and_repeated_timeouts_do_nothing() {
    let mut bench = Bench::new();
    let exchange = bench.start("/v1/kv/k?index=1&wait=10s");
    for _ in 0..3 {
        bench.consul.handle_timeout(bench.now);
    }
    assert_eq!(bench.consul.poll_answer(), None);
    bench.pass(seconds(11));
    bench.consul.handle_timeout(bench.now);
    assert_eq!(bench.only_answer().0, exchange);
}
