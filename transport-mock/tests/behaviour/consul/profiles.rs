//! Differences between releases. `conformance/` compares 1.8 and 1.23 with real answers.

use semaphore_core::adapter::{Method, Request};
use transport_mock::consul::{Access, Policy, Profile, Version};

use super::bench::{Bench, index, json, seconds, text};

const SET: &str = r#"{"KV":{"Verb":"set","Key":"k"}}"#;

fn operations(count: usize) -> String {
    format!("[{}]", vec![SET; count].join(","))
}

#[test]
fn a_transaction_has_sixty_four_operations_and_from_1_14_twice_as_many() {
    for version in Version::ALL {
        let most = if version == Version::V1_8 { 64 } else { 128 };
        let mut bench = Bench::of(version);
        assert_eq!(bench.put("/v1/txn", &operations(most)).status(), 200);
        let refused = bench.put("/v1/txn", &operations(most + 1));
        assert_eq!(refused.status(), 413, "{version}");
        let text = text(&refused);
        assert!(text.contains(&format!("({} > {most})", most + 1)), "{text}");
    }
}

#[test]
fn a_percent_encoded_slash_leads_to_an_endpoint_until_1_22() {
    for version in Version::ALL {
        let mut bench = Bench::of(version);
        let status = if version < Version::V1_22 { 200 } else { 404 };
        for path in ["/v1/kv%2Fa", "/v1%2fkv/a"] {
            assert_eq!(bench.put(path, "v").status(), status, "{version}: {path}");
        }
        for path in ["/v1/%6bv/a", "/v1/kv/a%2Fb"] {
            assert_eq!(bench.put(path, "v").status(), 200, "{version}: {path}");
        }
    }
}

#[test]
fn which_keys_are_taken_differs_and_differs_between_the_two_ways_to_write_them() {
    // A release, a path, the key in a transaction, and the statuses of both.
    for (version, path, key, statuses) in [
        (Version::V1_8, "%20a", " a", (200, 200)),
        (Version::V1_15, "%20a", " a", (200, 200)),
        (Version::V1_22, "%20a", " a", (500, 200)),
        (Version::V1_23, "%20a", " a", (500, 400)),
        (Version::V1_8, "%2Fa", "/a", (301, 200)),
        (Version::V1_15, "%2Fa", "/a", (301, 200)),
        (Version::V1_22, "%2Fa", "/a", (200, 200)),
        (Version::V1_23, "%2Fa", "/a", (500, 400)),
        (Version::V1_15, "a%2520b", "a%20b", (200, 200)),
        (Version::V1_22, "a%2520b", "a%20b", (500, 200)),
        (Version::V1_23, "a%2520b", "a%20b", (500, 400)),
        (Version::V1_23, "a%2541", "a%41", (200, 200)),
        (Version::V1_23, "a/b", "a/b", (200, 200)),
        (Version::V1_22, "a//b", "a//b", (301, 200)),
        (Version::V1_23, "a//b", "a//b", (307, 200)),
    ] {
        let mut bench = Bench::of(version);
        let put = bench.put(&format!("/v1/kv/{path}"), "v");
        let body = format!(r#"[{{"KV":{{"Verb":"set","Key":"{key}"}}}}]"#);
        let txn = bench.put("/v1/txn", &body);
        let answered = (put.status(), txn.status());
        assert_eq!(answered, statuses, "{version}: {path}");
        if put.status() == 500 {
            assert!(
                text(&put).starts_with("invalid key name, "),
                "{version}: {path}"
            );
        }
        if txn.status() == 400 {
            let text = text(&txn);
            assert!(text.starts_with("Invalid key in transaction: "), "{text}");
        }
    }
}

#[test]
fn what_is_percent_encoded_is_redirected_or_cleaned_in_silence() {
    for (version, path) in [
        (Version::V1_8, "x/a%2F%2Fb"),
        (Version::V1_15, "x/a%2F%2Fb"),
    ] {
        let redirect = Bench::of(version).put(&format!("/v1/kv/{path}"), "v");
        assert_eq!(redirect.status(), 301, "{version}");
        assert_eq!(redirect.header("Location"), Some("/v1/kv/x/a/b"));
    }
    for version in [Version::V1_22, Version::V1_23] {
        for (path, key) in [
            ("x/a%2F%2Fb", "x/a/b"),
            ("x/%2e/b", "x/b"),
            ("x/%2e%2e/b", "b"),
            ("x%2F%2F", "x/"),
        ] {
            let mut bench = Bench::of(version);
            assert_eq!(bench.put(&format!("/v1/kv/{path}"), "v").status(), 200);
            assert!(bench.consul.entry(key).is_some(), "{version}: {path}");
        }
        // A transaction stores the value under a name that no path reaches.
        let mut bench = Bench::of(version);
        bench.put("/v1/txn", r#"[{"KV":{"Verb":"set","Key":"x/a//b"}}]"#);
        assert!(bench.consul.entry("x/a//b").is_some());
        assert_eq!(bench.get("/v1/kv/x/a%2F%2Fb").status(), 404, "{version}");
    }
}

#[test]
fn a_session_id_that_is_none_is_a_fault_or_unknown() {
    let mut old = Bench::new();
    for answer in [
        old.put("/v1/session/renew/zz", ""),
        old.put("/v1/session/destroy/zz", ""),
        old.get("/v1/session/info/zz"),
        old.put("/v1/kv/a?acquire=zz", ""),
    ] {
        assert_eq!(answer.status(), 500);
        assert!(text(&answer).contains("UUID"), "{}", text(&answer));
    }
    for version in [Version::V1_15, Version::V1_22, Version::V1_23] {
        let mut new = Bench::of(version);
        assert_eq!(new.put("/v1/session/renew/zz", "").status(), 404);
        assert_eq!(text(&new.put("/v1/session/destroy/zz", "")), "true");
        assert_eq!(text(&new.get("/v1/session/info/zz")), "[]");
        let acquired = new.put("/v1/kv/a?acquire=zz", "");
        assert_eq!(acquired.status(), 500);
        assert_eq!(
            text(&acquired),
            r#"raft apply failed: invalid session "zz""#
        );
    }
}

#[test]
fn get_or_empty_is_a_verb_from_1_14_and_fails_for_no_key() {
    let body =
        r#"[{"KV":{"Verb":"get-or-empty","Key":"none","Value":"dg==","Index":7,"Session":"any"}}]"#;
    assert_eq!(Bench::new().put("/v1/txn", body).status(), 409);
    for version in [Version::V1_15, Version::V1_22, Version::V1_23] {
        let answer = Bench::of(version).put("/v1/txn", body);
        assert_eq!(answer.status(), 200, "{}", text(&answer));
        let entry = &json(&answer)["Results"][0]["KV"];
        assert_eq!(entry["Key"], "none");
        let (index, session) = (&entry["ModifyIndex"], &entry["Session"]);
        assert!(entry["Value"].is_null(), "{entry}");
        assert!(*index == 7 && *session == "any", "{entry}");
    }
}

#[test]
fn a_neighbour_ends_a_poll_on_a_missing_key_until_1_11_4() {
    for version in Version::ALL {
        let mut bench = Bench::of(version);
        bench.put("/v1/kv/a/x", "v");
        let at = index(&bench.get("/v1/kv/a/key"));
        let poll = bench.start(&format!("/v1/kv/a/key?index={at}&wait=60s"));
        bench.put("/v1/kv/a/y", "v");
        if version == Version::V1_8 {
            let (woken, answer) = bench.only_answer();
            assert_eq!((woken, answer.status()), (poll, 404));
            continue;
        }
        assert_eq!(bench.consul.poll_answer(), None, "{version}");
        let write = Request::new(Method::Put, "/v1/kv/a/key").with_body("v");
        bench.consul.submit(bench.now, &write);
        bench.consul.poll_answer().expect("the write's");
        let (woken, answer) = bench.only_answer();
        assert_eq!((woken, answer.status()), (poll, 200), "{version}");
    }
}

#[test]
fn a_poll_on_a_missing_key_that_nobody_writes_ends_when_its_wait_is_over() {
    for version in [Version::V1_15, Version::V1_22, Version::V1_23] {
        let mut bench = Bench::of(version);
        bench.put("/v1/kv/a/x", "v");
        let at = index(&bench.get("/v1/kv/a/key"));
        let poll = bench.start(&format!("/v1/kv/a/key?index={at}&wait=10s"));
        bench.put("/v1/kv/a/y", "v");
        bench.pass(seconds(11));
        let (ended, answer) = bench.only_answer();
        assert_eq!((ended, answer.status()), (poll, 404));
        assert!(index(&answer) > at, "it shows the index of the neighbour");
    }
}

#[test]
fn newer_agents_say_what_is_denied_to_whom_and_what_was_left_out() {
    for version in Version::ALL {
        let mut bench = Bench::of(version);
        bench.put("/v1/kv/a/open", "v");
        bench.put("/v1/kv/a/shut", "v");
        bench.consul.set_acl_default_deny();
        let policy = Policy::new().with_key_prefix("a/open", Access::Read);
        bench.consul.add_token("some", policy);
        let told = |answer: &semaphore_core::adapter::Response| {
            answer
                .header("X-Consul-Results-Filtered-By-ACLs")
                .map(str::to_owned)
        };
        let list = bench.get_as("some", "/v1/kv/a/?recurse");
        let anonymous = bench.get("/v1/kv/a/?recurse");
        let denied = bench.get_as("some", "/v1/kv/a/shut");
        let nobody = bench.get("/v1/kv/a/shut");
        assert_eq!(told(&anonymous), None, "never without a token");
        for refused in [&denied, &nobody] {
            assert_eq!(refused.status(), 403);
            assert!(text(refused).starts_with("Permission denied"));
        }
        if version == Version::V1_8 {
            assert_eq!(told(&list), None);
            assert_eq!(list.header("X-Consul-Default-Acl-Policy"), None);
            continue;
        }
        assert_eq!(told(&list).as_deref(), Some("true"), "{version}");
        assert_eq!(list.header("X-Consul-Default-Acl-Policy"), Some("deny"));
        assert_eq!(
            list.header("X-Consul-Query-Backend"),
            Some("blocking-query")
        );
        assert!(
            !text(&denied).contains("some"),
            "a token's secret is not shown"
        );
    }
}

#[test]
fn a_node_that_is_missing_is_told_after_the_words_of_the_log() {
    for (version, said) in [
        (Version::V1_8, "Missing node registration"),
        (Version::V1_15, "apply failed: Missing node registration"),
    ] {
        let answer = Bench::of(version).put("/v1/session/create", r#"{"Node":"none"}"#);
        assert_eq!((answer.status(), text(&answer).as_str()), (500, said));
    }
}

#[test]
fn a_newer_agent_holds_requests_for_longer_without_a_leader() {
    let (old, old_late) = Profile::from(Version::V1_8).without_leader();
    let (new, new_late) = Profile::from(Version::V1_23).without_leader();
    assert!(new.start() > old.end() && new_late > old_late);
}

#[test]
fn the_page_on_consul_names_every_profile() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/CONSUL.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, table) = page
        .split_once("| profile | conforms to |")
        .expect("a table");
    let rows = table
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("| "));
    let named: Vec<_> = rows
        .filter_map(|row| row.split(" | ").next())
        .flat_map(|names| names.split(", "))
        .collect();
    for profile in Profile::all() {
        assert!(named.contains(&profile.name()), "{profile}: {named:?}");
    }
}
