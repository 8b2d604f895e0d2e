//! The request limits of agents from 1.15 on.

use semaphore_core::adapter::{Instant, Method, Request};
use transport_mock::consul::{Consul, RequestLimits, Version};

use super::bench::{Bench, seconds, text};

fn limited(read_rate: Option<f64>, write_rate: Option<f64>) -> Bench {
    let mut bench = Bench::of(Version::V1_15);
    let limits = RequestLimits {
        read_rate,
        write_rate,
    };
    let session = bench.session("");
    assert!(!session.is_empty());
    bench.consul.set_request_limits(bench.now, Some(limits));
    bench
}

#[test]
fn ten_seconds_worth_comes_at_once_and_then_what_the_rate_gives() {
    let mut bench = limited(Some(2.0), None);
    for number in 0..20 {
        assert_eq!(bench.get("/v1/kv/?recurse").status(), 404, "read {number}");
    }
    let refused = bench.get("/v1/kv/?recurse");
    assert_eq!(refused.status(), 429);
    assert_eq!(
        text(&refused),
        "rate limit exceeded, try again later or against a different server"
    );
    assert_eq!(refused.header("Retry-After"), None);

    bench.pass(seconds(1));
    for status in [404, 404, 429] {
        assert_eq!(bench.get("/v1/kv/?recurse").status(), status);
    }
    bench.pass(seconds(1000));
    let served = (0..100).filter(|_| bench.get("/v1/kv/?recurse").status() == 404);
    assert_eq!(served.count(), 20, "no more than a burst is saved up");
}

#[test]
fn a_write_is_refused_by_the_leader_and_not_applied() {
    let mut bench = limited(None, Some(0.1));
    assert_eq!(bench.put("/v1/kv/a", "1").status(), 200);
    let before = bench.consul.last_index();
    let refused = bench.put("/v1/kv/a", "2");
    assert_eq!(refused.status(), 503);
    assert_eq!(
        text(&refused),
        "rate limit exceeded for operation that can only be performed by the leader, try again later"
    );
    assert_eq!(bench.consul.last_index(), before);
    assert_eq!(text(&bench.get("/v1/kv/a?raw")), "1");
}

#[test]
fn a_renewal_is_a_write_and_a_transaction_what_is_in_it() {
    let mut bench = limited(Some(0.1), Some(0.2));
    let id = bench
        .consul
        .sessions()
        .next()
        .expect("a session")
        .id()
        .to_owned();
    let renew = format!("/v1/session/renew/{id}");
    assert_eq!(bench.put(&renew, "").status(), 200);
    let write = r#"[{"KV":{"Verb":"set","Key":"a"}}]"#;
    assert_eq!(bench.put("/v1/txn", write).status(), 200);
    assert_eq!(bench.put(&renew, "").status(), 503);
    assert_eq!(bench.put("/v1/session/create", "").status(), 503);
    assert_eq!(bench.delete("/v1/kv/a").status(), 503);

    let read = r#"[{"KV":{"Verb":"get-tree","Key":"a"}}]"#;
    assert_eq!(bench.put("/v1/txn", read).status(), 200);
    assert_eq!(bench.put("/v1/txn", read).status(), 429);
    assert_eq!(bench.get(&format!("/v1/session/info/{id}")).status(), 429);
    assert_eq!(bench.get("/v1/status/leader").status(), 200);
}

#[test]
fn limits_end_when_they_are_taken_away() {
    let mut bench = limited(Some(0.0), Some(0.0));
    assert_eq!(bench.put("/v1/kv/a", "1").status(), 503);
    bench.consul.set_request_limits(bench.now, None);
    assert_eq!(bench.put("/v1/kv/a", "1").status(), 200);
}

#[test]
#[should_panic(expected = "Consul 1.8.7 has no limits of requests")]
fn a_release_without_limits_can_not_be_given_any() {
    let limits = RequestLimits {
        read_rate: None,
        write_rate: None,
    };
    Consul::new(1).set_request_limits(Instant::ORIGIN, Some(limits));
}

#[test]
fn a_server_that_does_not_lead_refuses_writes_as_reads_and_only_its_own_clients() {
    let mut bench = Bench::of(Version::V1_22);
    bench.consul.register_node(bench.now, "server-2");
    let limits = RequestLimits {
        read_rate: None,
        write_rate: Some(0.1),
    };
    bench
        .consul
        .set_request_limits_of(bench.now, "server-2", Some(limits));
    let through = |bench: &mut Bench, node: &str| {
        let write = Request::new(Method::Put, "/v1/kv/a").with_body("1");
        bench.consul.submit_through(bench.now, node, &write);
        let (_, answer) = bench.consul.poll_answer().expect("an answer at once");
        answer
    };
    assert_eq!(through(&mut bench, "server-2").status(), 200);
    let refused = through(&mut bench, "server-2");
    assert_eq!(refused.status(), 429);
    assert!(text(&refused).starts_with("rate limit exceeded, try again later or against"));
    assert_eq!(bench.put("/v1/kv/a", "2").status(), 200, "by the leader");
    bench
        .consul
        .set_request_limits_of(bench.now, "server-2", None);
    assert_eq!(through(&mut bench, "server-2").status(), 200);
}
