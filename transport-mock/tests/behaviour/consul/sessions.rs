//! Sessions and their times, to the nanosecond.

use std::time::Duration;

use super::bench::{Bench, just_under, seconds, text};

const NANOSECOND: Duration = Duration::from_nanos(1);

#[test]
fn a_session_ends_at_twice_its_ttl_after_the_last_renewal_and_not_before() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    bench.pass(seconds(15));
    bench.put(&format!("/v1/session/renew/{id}"), "");
    let ends = bench.now + seconds(20);
    assert_eq!(bench.consul.poll_timeout(), Some(ends));
    bench.pass(just_under(seconds(20)));
    assert_eq!(bench.consul.sessions().count(), 1);
    bench.pass(NANOSECOND);
    assert_eq!(bench.consul.sessions().count(), 0);
    assert_eq!(bench.consul.poll_timeout(), None);
}

#[test]
fn a_request_that_comes_after_an_expiry_finds_it_done() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    bench.now = bench.now + seconds(20);
    let renewal = bench.put(&format!("/v1/session/renew/{id}"), "");
    assert_eq!(renewal.status(), 404);
}

#[test]
fn lock_delays_begin_when_the_session_ended_not_when_it_was_noticed() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"TTL":"10s","LockDelay":"5s","NodeChecks":[]}"#);
    let other = bench.session(r#"{"NodeChecks":[]}"#);
    bench.put(&format!("/v1/kv/k?acquire={id}"), "v");
    bench.now = bench.now + just_under(seconds(25));
    assert_eq!(
        text(&bench.put(&format!("/v1/kv/k?acquire={other}"), "w")),
        "false"
    );
    bench.now = bench.now + NANOSECOND;
    assert_eq!(
        text(&bench.put(&format!("/v1/kv/k?acquire={other}"), "w")),
        "true"
    );
}

#[test]
fn a_lock_delay_is_a_minute_at_most() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"LockDelay":"1h","NodeChecks":[]}"#);
    let other = bench.session(r#"{"NodeChecks":[]}"#);
    bench.put(&format!("/v1/kv/k?acquire={id}"), "v");
    bench.consul.destroy_session(bench.now, &id);
    bench.pass(just_under(seconds(60)));
    assert_eq!(
        text(&bench.put(&format!("/v1/kv/k?acquire={other}"), "w")),
        "false"
    );
    bench.pass(NANOSECOND);
    assert_eq!(
        text(&bench.put(&format!("/v1/kv/k?acquire={other}"), "w")),
        "true"
    );
}

#[test]
fn a_ttl_below_that_of_the_servers_is_refused_and_sessions_that_exist_are_renewed() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"TTL":"60s","NodeChecks":[]}"#);
    bench.consul.set_least_ttl(seconds(75));
    let refused = bench.put("/v1/session/create", r#"{"TTL":"60s","NodeChecks":[]}"#);
    assert_eq!(refused.status(), 500);
    // As an agent of 1.8.7 with `session_ttl_min = "75s"` says it.
    let said = "Invalid Session TTL '60000000000', must be between [1m15s=24h0m0s]";
    assert_eq!(text(&refused), said);
    assert_eq!(
        bench.put(&format!("/v1/session/renew/{id}"), "").status(),
        200
    );
    assert_eq!(bench.consul.sessions().count(), 1);
    bench.session(r#"{"TTL":"75s","NodeChecks":[]}"#);
}
