//! Namespaces and partitions. Community refuses or ignores them. In Enterprise each has separate
//! keys and sessions.

use semaphore_core::adapter::{Method, Request};
use transport_mock::consul::{Edition, Profile, Tenancy, Version};

use super::bench::{Bench, index, json, seconds, text};

/// The releases that have partitions.
fn enterprise() -> impl Iterator<Item = Bench> {
    let profiles = Profile::all().filter(|it| it.edition == Edition::Enterprise);
    let profiles = profiles.filter(|it| it.version != Version::V1_8);
    profiles.map(Bench::of)
}

#[test]
fn community_refuses_a_namespace_and_from_1_11_a_partition() {
    for version in Version::ALL {
        let mut bench = Bench::of(version);
        for target in ["/v1/kv/a?ns=team", "/v1/session/list?ns=team"] {
            let answer = bench.get(target);
            assert_eq!(answer.status(), 400, "{version}: {target}");
            assert!(text(&answer).contains("Namespaces are a Consul Enterprise feature"));
        }
        let status = bench.put("/v1/kv/a?partition=team", "v").status();
        let expected = if version == Version::V1_8 { 200 } else { 400 };
        assert_eq!(status, expected, "{version}");
        let txn = r#"[{"KV":{"Verb":"set","Key":"b","Namespace":"team"}}]"#;
        let answer = bench.put("/v1/txn?ns=team&partition=team", txn);
        assert_eq!(answer.status(), 200, "{version}: {}", text(&answer));
        assert!(bench.consul.entry("b").is_some(), "there is one namespace");
    }
}

#[test]
fn each_namespace_and_partition_has_keys_and_sessions_of_its_own() {
    for mut bench in enterprise() {
        bench.put("/v1/kv/k", "default");
        bench.put("/v1/kv/k?ns=team", "team");
        bench.put("/v1/kv/k?ns=team&partition=west", "west");
        for (query, value) in [
            ("", "default"),
            ("&ns=default", "default"),
            ("&ns=team", "team"),
            ("&ns=team&partition=west", "west"),
        ] {
            assert_eq!(text(&bench.get(&format!("/v1/kv/k?raw{query}"))), value);
        }
        assert_eq!(bench.get("/v1/kv/k?partition=west").status(), 404);

        let created = bench.put("/v1/session/create?ns=team", "");
        let id = json(&created)["ID"].as_str().unwrap().to_owned();
        assert_eq!(text(&bench.get(&format!("/v1/session/info/{id}"))), "[]");
        let renew = format!("/v1/session/renew/{id}");
        assert_eq!(bench.put(&renew, "").status(), 404);
        assert_eq!(bench.put(&format!("{renew}?ns=team"), "").status(), 200);
        let acquire = format!("/v1/kv/lock?acquire={id}");
        assert_eq!(bench.put(&acquire, "").status(), 500);
        assert_eq!(text(&bench.put(&format!("{acquire}&ns=team"), "")), "true");

        let team = Tenancy::of_namespace("team");
        assert_eq!(bench.consul.sessions_in(&team).count(), 1);
        assert_eq!(bench.consul.sessions().count(), 0);
        bench.consul.destroy_session(bench.now, &id);
        let mut entries = bench.consul.entries_in(&team, "lock");
        assert_eq!(entries.next().and_then(|entry| entry.session()), None);
    }
}

#[test]
fn an_old_enterprise_has_namespaces_and_no_partitions() {
    let mut bench = Bench::of(Profile {
        version: Version::V1_8,
        edition: Edition::Enterprise,
    });
    bench.put("/v1/kv/k?ns=team&partition=west", "team");
    assert_eq!(text(&bench.get("/v1/kv/k?raw&ns=team")), "team");
    let txn = r#"[{"KV":{"Verb":"get","Key":"k","Namespace":"team"}}]"#;
    assert_eq!(bench.put("/v1/txn", txn).status(), 200);
    let txn = r#"[{"KV":{"Verb":"get","Key":"k","Partition":"west"}}]"#;
    let answer = bench.put("/v1/txn", txn);
    assert!(text(&answer).contains("unknown field \"Partition\""));
}

#[test]
fn a_transaction_is_about_what_its_operations_name_and_never_about_its_query() {
    for mut bench in enterprise() {
        let txn = r#"[
            {"KV":{"Verb":"set","Key":"a"}},
            {"KV":{"Verb":"set","Key":"b","Namespace":"team"}},
            {"KV":{"Verb":"set","Key":"c","Namespace":"team","Partition":"west"}}
        ]"#;
        let answer = bench.put("/v1/txn?ns=other&partition=other", txn);
        assert_eq!(answer.status(), 200, "{}", text(&answer));
        let team = Tenancy::of_namespace("team");
        let west = team.clone().in_partition("west");
        for (tenancy, key) in [(Tenancy::default(), "a"), (team, "b"), (west, "c")] {
            let keys: Vec<_> = bench.consul.entries_in(&tenancy, "").collect();
            assert_eq!(keys.len(), 1, "{tenancy:?}");
            assert_eq!(keys[0].key(), key);
        }
        assert_eq!(bench.consul.tenancies().count(), 3);

        // A failed transaction leaves nothing behind in any tenancy.
        let txn = r#"[
            {"KV":{"Verb":"set","Key":"d","Namespace":"team"}},
            {"KV":{"Verb":"check-not-exists","Key":"a"}}
        ]"#;
        assert_eq!(bench.put("/v1/txn", txn).status(), 409);
        assert_eq!(bench.get("/v1/kv/d?ns=team").status(), 404);
    }
}

#[test]
fn a_poll_is_woken_by_its_own_namespace_only() {
    for mut bench in enterprise() {
        bench.put("/v1/kv/k?ns=team", "1");
        let at = index(&bench.get("/v1/kv/k?ns=team"));
        let poll = bench.start(&format!("/v1/kv/k?ns=team&index={at}&wait=60s"));
        bench.put("/v1/kv/k", "1");
        assert_eq!(bench.consul.poll_answer(), None);
        let write = Request::new(Method::Put, "/v1/kv/k?ns=team").with_body("2");
        bench.consul.submit(bench.now, &write);
        bench.consul.poll_answer().expect("the write's");
        assert_eq!(bench.only_answer().0, poll);
    }
}

#[test]
fn sessions_of_every_namespace_end_by_their_ttl_and_with_their_node() {
    for mut bench in enterprise() {
        let team = Tenancy::of_namespace("team");
        let body = r#"{"TTL":"10s","NodeChecks":[]}"#;
        bench.put("/v1/session/create?ns=team", body);
        bench.put("/v1/session/create?ns=other", r#"{"NodeChecks":[]}"#);
        bench.pass(seconds(20));
        assert_eq!(bench.consul.sessions_in(&team).count(), 0);
        let other = Tenancy::of_namespace("other");
        assert_eq!(bench.consul.sessions_in(&other).count(), 1);
        bench.consul.deregister_node(bench.now, "mock");
        assert_eq!(bench.consul.sessions_in(&other).count(), 0);
    }
}
