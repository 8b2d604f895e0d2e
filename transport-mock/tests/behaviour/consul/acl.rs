//! Access control: only the switches. The rules are compared with a real agent.

use transport_mock::consul::{Access, Policy};

use super::bench::{Bench, json, text};

const FILTERED: &str = "X-Consul-Results-Filtered-By-ACLs";

fn bench_with_reader_of_a() -> Bench {
    let mut bench = Bench::new();
    bench.put("/v1/kv/x/a", "1");
    bench.put("/v1/kv/x/b", "2");
    bench.consul.set_acl_default_deny();
    let policy = Policy::new().with_key("x/a", Access::Read);
    bench.consul.add_token("reader", policy);
    bench
}

#[test]
fn an_old_agent_filters_a_list_in_silence() {
    let mut bench = bench_with_reader_of_a();
    let list = bench.get_as("reader", "/v1/kv/x/?recurse");
    assert_eq!(json(&list).as_array().unwrap().len(), 1);
    assert_eq!(list.header(FILTERED), None);
}

#[test]
fn a_newer_agent_says_that_it_filtered_a_list() {
    let mut bench = bench_with_reader_of_a();
    bench.consul.set_acl_reports_filtering(true);
    let list = bench.get_as("reader", "/v1/kv/x/?recurse");
    assert_eq!(list.header(FILTERED), Some("true"));
    let keys = bench.get_as("reader", "/v1/kv/x/?keys");
    assert_eq!(keys.header(FILTERED), Some("true"));
}

#[test]
fn a_newer_agent_says_nothing_about_a_whole_list_or_to_strangers() {
    let mut bench = bench_with_reader_of_a();
    bench.consul.set_acl_reports_filtering(true);
    let whole = bench.get_as("reader", "/v1/kv/x/a?recurse");
    assert_eq!(whole.header(FILTERED), None);
    let anonymous = bench.get("/v1/kv/x/?recurse");
    assert_eq!(
        (anonymous.status(), anonymous.header(FILTERED)),
        (404, None)
    );
}

#[test]
fn a_filtered_list_of_sessions_is_reported_too() {
    let mut bench = bench_with_reader_of_a();
    bench.consul.add_token("root", Policy::management());
    bench.consul.set_acl_reports_filtering(true);
    let list = bench.get_as("root", "/v1/session/list");
    assert_eq!(list.header(FILTERED), None);
    let mut bench = Bench::new();
    let id = bench.session("");
    bench.consul.set_acl_default_deny();
    bench.consul.set_acl_reports_filtering(true);
    bench.consul.add_token("none", Policy::new());
    for target in ["/v1/session/list", &format!("/v1/session/info/{id}")] {
        let list = bench.get_as("none", target);
        assert_eq!(text(&list), "[]");
        assert_eq!(list.header(FILTERED), Some("true"));
    }
}

#[test]
fn a_token_that_is_taken_away_is_unknown_from_then_on() {
    let mut bench = bench_with_reader_of_a();
    assert_eq!(bench.get_as("reader", "/v1/kv/x/a").status(), 200);
    bench.consul.remove_token("reader");
    let refused = bench.get_as("reader", "/v1/kv/x/a");
    assert_eq!(
        (refused.status(), text(&refused)),
        (403, "ACL not found".into())
    );
}
