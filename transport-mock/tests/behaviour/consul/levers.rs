//! What an operator can do, and what a test can inspect.

use transport_mock::Behavior;
use transport_mock::consul::{Entry, NODE};

use super::bench::{Bench, index, seconds, text};

#[test]
fn an_operator_who_destroys_a_session_wakes_who_watches_its_keys() {
    let mut bench = Bench::new();
    let id = bench.session(r#"{"NodeChecks":[],"Behavior":"delete"}"#);
    bench.put(&format!("/v1/kv/x/{id}?acquire={id}"), "v");
    let at = index(&bench.get("/v1/kv/x/?recurse"));
    let exchange = bench.start(&format!("/v1/kv/x/?recurse&index={at}"));
    bench.consul.destroy_session(bench.now, &id);
    let (answered, response) = bench.only_answer();
    assert_eq!((answered, response.status()), (exchange, 404));
    assert!(index(&response) > at);
}

#[test]
fn destroying_an_unknown_session_changes_nothing() {
    let mut bench = Bench::new();
    bench.session("");
    bench.consul.destroy_session(bench.now, "no id");
    bench
        .consul
        .destroy_session(bench.now, "11111111-1111-1111-1111-111111111111");
    assert_eq!(bench.consul.sessions().count(), 1);
}

#[test]
fn a_failing_serf_health_ends_default_sessions_and_spares_those_without_checks() {
    let mut bench = Bench::new();
    bench.session(r#"{"TTL":"10s"}"#);
    let kept = bench.session(r#"{"TTL":"10s","NodeChecks":[]}"#);
    bench.consul.fail_check(bench.now, NODE, "serfHealth");
    let left: Vec<_> = bench
        .consul
        .sessions()
        .map(|session| session.id().to_owned())
        .collect();
    assert_eq!(left, [kept]);
    let refused = bench.put("/v1/session/create", "");
    assert_eq!(text(&refused), "Check 'serfHealth' is in critical state");
    bench.consul.pass_check(bench.now, NODE, "serfHealth");
    bench.session("");
}

#[test]
fn a_session_can_be_looked_at() {
    let mut bench = Bench::new();
    let body = r#"{"Name":"n","TTL":"15s","LockDelay":"1s","Behavior":"delete","NodeChecks":[]}"#;
    let id = bench.session(body);
    let session = bench.consul.sessions().next().unwrap();
    assert_eq!(
        (session.id(), session.name(), session.node()),
        (id.as_str(), "n", NODE)
    );
    assert_eq!(session.ttl(), Some(seconds(15)));
    assert_eq!(session.lock_delay(), seconds(1));
    assert_eq!(session.behavior(), Behavior::Delete);
    assert_eq!(session.checks().count(), 0);
}

#[test]
fn entries_can_be_looked_at() {
    let mut bench = Bench::new();
    let id = bench.session("");
    bench.put("/v1/kv/x/a?flags=7", "plain");
    bench.put(&format!("/v1/kv/x/b?acquire={id}"), "held");
    bench.put("/v1/kv/y", "elsewhere");
    let keys: Vec<_> = bench.consul.entries("x/").map(Entry::key).collect();
    assert_eq!(keys, ["x/a", "x/b"]);
    let plain = bench.consul.entry("x/a").unwrap();
    assert_eq!(
        (plain.value(), plain.flags(), plain.session()),
        (&b"plain"[..], 7, None)
    );
    let held = bench.consul.entry("x/b").unwrap();
    assert_eq!((held.session(), held.lock_index()), (Some(id.as_str()), 1));
    assert_eq!(held.create_index(), held.modify_index());
    assert!(held.create_index() > plain.create_index());
}
