//! What is wrong with the connection to Consul, with an exit code for each case.

use std::sync::atomic::{AtomicU32, Ordering};

use real_agent::{Agent, Gateway};

use crate::false_agent::FalseAgent;
use crate::support::{Dev, closed_port, program, run, run_with, scene};

const MANAGEMENT: &str = "11111111-2222-3333-4444-555555555555";

#[test]
fn where_all_is_well_it_says_so_and_leaves_nothing() {
    let (agent, prefix) = scene();
    let checked = run(agent.url(), &["check", &prefix]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for about in [
        "agent",
        "token",
        "release",
        "limits",
        "keys",
        "permissions",
        "others",
        "clock",
    ] {
        let line = checked.stdout.lines().find(|line| line.contains(about));
        assert!(
            line.is_some_and(|line| line.starts_with("ok")),
            "{checked:?}"
        );
    }
    agent.assert_nothing_left(&prefix);
}

#[test]
fn each_way_to_fail_has_a_code_of_its_own() {
    let nowhere = closed_port();
    let gateway = Gateway::start(404).expect("a port");
    for (url, code, said) in [
        ("http://", 10, "CONSUL_HTTP_ADDR"),
        (nowhere.as_str(), 12, "could not be reached"),
        (&format!("http://{}", gateway.addr()), 12, "not Consul"),
    ] {
        let checked = run(url, &["check", "--no-clock"]);
        assert_eq!(checked.code, Some(code), "{checked:?}");
        assert!(checked.stdout.contains(said), "{checked:?}");
    }
    let mut no_file = program(&nowhere, &["check"]);
    no_file.env("CONSUL_CACERT", "/no/such/file");
    let checked = run_with(no_file, "");
    assert_eq!(checked.code, Some(11), "{checked:?}");
}

#[test]
fn what_is_wrong_with_a_setting_is_told_of_what_it_sets_and_with_its_name() {
    let nowhere = closed_port();
    let missing = "/no/such/file";
    for (variable, value, code, about) in [
        ("CONSUL_HTTP_TOKEN_FILE", missing, 14, "token"),
        ("CONSUL_HTTP_TOKEN", "two words", 14, "token"),
        ("CONSUL_CAPATH", missing, 11, "TLS"),
        ("CONSUL_HTTP_SSL", "perhaps", 11, "TLS"),
        ("CONSUL_NAMESPACE", "a\nb", 10, "address"),
    ] {
        let mut command = program(&nowhere, &["check"]);
        command.env(variable, value);
        let checked = run_with(command, "");
        assert_eq!(checked.code, Some(code), "{checked:?}");
        let first = checked.stdout.lines().next().expect("a line");
        assert!(first.starts_with(&format!("FAIL  {about} ")), "{checked:?}");
        assert!(first.contains(variable), "{checked:?}");
        assert!(
            !checked.stdout.contains("PEM") || about == "TLS",
            "{checked:?}"
        );
        let is_address = checked.stdout.contains("--http-addr");
        assert!(!is_address, "{checked:?}");
    }
    for (arguments, code, about) in [
        (["--token-file", missing], 14, "token"),
        (["--ca-file", missing], 11, "TLS"),
    ] {
        let checked = run(&nowhere, &[&["check"], &arguments[..]].concat());
        assert_eq!(checked.code, Some(code), "{checked:?}");
        let first = checked.stdout.lines().next().expect("a line");
        assert!(first.starts_with(&format!("FAIL  {about} ")), "{checked:?}");
        assert!(first.contains(missing), "{checked:?}");
        assert!(first.contains(arguments[0]), "{checked:?}");
    }
}

#[test]
fn an_agent_without_a_leader_is_told() {
    let dev = Dev::start(&["500?rate=1"]);
    let checked = run(&dev.url, &["check", "--no-clock"]);
    assert_eq!(checked.code, Some(13), "{checked:?}");
}

#[test]
fn a_token_that_lacks_something_is_told_what_and_the_policy_that_is_printed_is_enough() {
    let agent = Agent::builder().acl(MANAGEMENT).start().expect("an agent");
    let url = agent.url();
    let with_token = |token: &str, arguments: &[&str]| {
        let mut command = program(&url, arguments);
        command.env("CONSUL_HTTP_TOKEN", token);
        run_with(command, "")
    };
    let unknown = "99999999-2222-3333-4444-555555555555";
    let checked = with_token(unknown, &["check", "--no-clock", "p"]);
    assert_eq!(checked.code, Some(14), "{checked:?}");

    let token = |rules: &str| token(&agent, rules);
    let sessions = "session_prefix \"\" { policy = \"write\" }\n";
    let keys = "key_prefix \"p/\" { policy = \"write\" }\n";
    let record = "key \"p/.lock\" { policy = \"read\" }\n";
    for (rules, said) in [
        (
            "key_prefix \"p/\" { policy = \"write\" }",
            "making a session",
        ),
        (sessions, "writing below the prefix"),
        (
            &format!("{sessions}{keys}{record}"),
            "writing the record (key write on PREFIX/.lock) is refused",
        ),
    ] {
        let checked = with_token(&token(rules), &["check", "--no-clock", "p"]);
        assert_eq!(checked.code, Some(15), "{checked:?}");
        assert!(checked.stdout.contains(said), "{checked:?}");
        assert!(checked.stdout.contains("key_prefix \"p/\""), "{checked:?}");
    }
    let policy = with_token(MANAGEMENT, &["check", "--policy", "p"]).stdout;
    let enough = token(&policy);
    let checked = with_token(&enough, &["check", "--no-clock", "p"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let ran = with_token(&enough, &["run", "p", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let before = agent.client().get("/v1/kv/p/.lock").expect("an answer");
    let checked = with_token(&enough, &["check", "--no-clock", "p"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let after = agent.client().get("/v1/kv/p/.lock").expect("an answer");
    assert_eq!(after.text(), before.text());
    agent.assert_nothing_left("p");
}

#[test]
fn an_elections_key_is_checked_with_what_elect_run_needs_and_stays_as_it_was() {
    let agent = Agent::builder().acl(MANAGEMENT).start().expect("an agent");
    let url = agent.url();
    let with_token = |token: &str, arguments: &[&str]| {
        let mut command = program(&url, arguments);
        command.env("CONSUL_HTTP_TOKEN", token);
        run_with(command, "")
    };
    let check = ["check", "--no-clock", "--election", "p/leader"];
    let sessions = "session_prefix \"\" { policy = \"write\" }\n";
    for (rules, said) in [
        (
            "key \"p/leader\" { policy = \"write\" }",
            "making a session",
        ),
        (sessions, "writing the key (key write) is refused"),
        (
            &format!("{sessions}key \"p/leader\" {{ policy = \"read\" }}"),
            "writing the key (key write) is refused",
        ),
    ] {
        let checked = with_token(&token(&agent, rules), &check);
        assert_eq!(checked.code, Some(15), "{checked:?}");
        assert!(checked.stdout.contains(said), "{checked:?}");
        let advice = "key \"p/leader\" { policy = \"write\" }";
        assert!(checked.stdout.contains(advice), "{checked:?}");
    }
    let policy = ["check", "--policy", "--election", "p/leader"];
    let enough = token(&agent, &with_token(MANAGEMENT, &policy).stdout);
    let checked = with_token(&enough, &check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let nobody = "ok    others       nobody uses p/leader yet";
    assert!(checked.stdout.contains(nobody), "{checked:?}");
    assert_eq!(
        agent
            .client()
            .get("/v1/kv/p/leader")
            .expect("an answer")
            .status,
        404
    );
    let ran = with_token(
        &enough,
        &["elect", "run", "p/leader", "--", "sh", "-c", "exit 3"],
    );
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let before = agent.client().get("/v1/kv/p/leader").expect("an answer");
    let checked = with_token(&enough, &check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(
        checked.stdout.contains("nobody leads p/leader now"),
        "{checked:?}"
    );
    let after = agent.client().get("/v1/kv/p/leader").expect("an answer");
    assert_eq!(after.text(), before.text());
    agent.assert_nothing_left("p/leader");
}

#[test]
fn who_uses_a_prefix_is_not_known_where_the_token_may_not_look() {
    let agent = Agent::builder().acl(MANAGEMENT).start().expect("an agent");
    let url = agent.url();
    let with_token = |token: &str, arguments: &[&str]| {
        let mut command = program(&url, arguments);
        command.env("CONSUL_HTTP_TOKEN", token);
        run_with(command, "")
    };
    let ran = with_token(MANAGEMENT, &["run", "p", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let sessions = "session_prefix \"\" { policy = \"write\" }";
    let others = "key_prefix \"q/\" { policy = \"write\" }";
    for rules in [sessions.to_owned(), format!("{sessions}\n{others}")] {
        let checked = with_token(&token(&agent, &rules), &["check", "--no-clock", "p"]);
        let line = checked.stdout.lines().find(|it| it.contains(" others "));
        let line = line.expect("a line");
        assert!(line.starts_with('?'), "{checked:?}");
        assert!(line.contains("may not look"), "{checked:?}");
    }
}

#[test]
fn what_is_something_else_than_it_was_called_is_told() {
    let (agent, prefix) = scene();
    let key = format!("{prefix}/leader");
    let ran = run(agent.url(), &["elect", "run", &key, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let checked = run(agent.url(), &["check", "--no-clock", &key]);
    let said = format!("?     others       {key} is an election's key: check it with --election");
    assert!(checked.stdout.contains(&said), "{checked:?}");
    let ran = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let record = format!("{prefix}/.lock");
    let checked = run(agent.url(), &["check", "--no-clock", "--election", &record]);
    assert_eq!(checked.code, Some(20), "{checked:?}");
    assert!(
        checked.stdout.contains("is not an election's key"),
        "{checked:?}"
    );
}

#[test]
fn many_keys_of_others_below_the_prefix_and_a_long_list_are_warned_of() {
    let (agent, prefix) = scene();
    let below = |prefix: &str, number: u32, value: &[u8]| {
        let put = agent.put(&format!("/v1/kv/{prefix}/others/{number}"), value);
        assert!(put.expect("an answer").is_true());
    };
    for number in 0..100 {
        below(&prefix, number, b"x");
    }
    let warned = || {
        let checked = run(agent.url(), &["check", "--no-clock", &prefix]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        checked.stdout
    };
    assert!(!warned().contains("warn"), "{}", warned());
    below(&prefix, 100, b"x");
    assert!(warned().contains("warn  list"), "{}", warned());
    assert!(warned().contains("101 keys"), "{}", warned());
    for number in 1..=100 {
        let gone = agent.delete(&format!("/v1/kv/{prefix}/others/{number}"));
        gone.expect("an answer");
    }
    for number in 0..4 {
        below(&prefix, number, &vec![b'x'; 250_000]);
    }
    assert!(warned().contains("warn  list"), "{}", warned());
}

/// A token with these rules.
fn token(agent: &Agent, rules: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let client = agent.client();
    let name = format!("p{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let policy = serde_json::json!({ "Name": name, "Rules": rules }).to_string();
    let made = client.put("/v1/acl/policy", policy.as_bytes());
    assert_eq!(made.expect("an answer").status, 200);
    let token = serde_json::json!({ "Policies": [{ "Name": name }] }).to_string();
    let made = client.put("/v1/acl/token", token.as_bytes());
    let made = made.and_then(|answer| answer.json()).expect("a token");
    made["SecretID"].as_str().expect("a secret").to_owned()
}

#[test]
fn a_ttl_that_the_agent_refuses_is_told_with_the_setting_that_forbids_it() {
    let agent = Agent::builder().config("session_ttl_min = \"60s\"");
    let agent = agent.start().expect("an agent");
    for (ttl, code, ran) in [("30s", 17, 122), ("60s", 0, 0)] {
        let checked = run(&agent.url(), &["check", "--no-clock", "--ttl", ttl, "p"]);
        assert_eq!(checked.code, Some(code), "{checked:?}");
        assert_eq!(
            checked.stdout.contains("session_ttl_min"),
            code > 0,
            "{checked:?}"
        );
        let used = run(&agent.url(), &["run", "--ttl", ttl, "p", "--", "true"]);
        assert_eq!(used.code, Some(ran), "{used:?}");
    }
    let checked = run(&agent.url(), &["check", "--no-clock", "p"]);
    assert_eq!(checked.code, Some(17), "{checked:?}");
    run(&agent.url(), &["check", "--ttl", "5s", "p"]).assert(125, "TTL");
    agent.assert_nothing_left("p");
}

#[test]
fn an_agent_that_keeps_its_status_to_itself_is_still_consul() {
    let blocked = r#"http_config { block_endpoints = ["/v1/agent", "/v1/status", "/v1/acl"] }"#;
    let agent = Agent::builder().config(blocked).start().expect("an agent");
    let mut with_token = program(&agent.url(), &["check", "p"]);
    with_token.env("CONSUL_HTTP_TOKEN", MANAGEMENT);
    for checked in [run(&agent.url(), &["check", "p"]), run_with(with_token, "")] {
        assert_eq!(checked.code, Some(0), "{checked:?}");
        let lines: Vec<&str> = checked.stdout.lines().collect();
        for (line, start) in lines.iter().zip(["ok    agent", "?     token"]) {
            assert!(line.starts_with(start), "{checked:?}");
        }
        assert!(checked.stdout.contains("ok    clock"), "{checked:?}");
    }
    let ran = run(&agent.url(), &["run", "p", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn an_agent_that_refuses_what_a_token_may_do_is_told_apart_from_a_token() {
    for endpoint in ["/v1/session", "/v1/txn"] {
        let blocked = format!("http_config {{ block_endpoints = [\"{endpoint}\"] }}");
        let agent = Agent::builder().config(blocked).start().expect("an agent");
        let checks: [&[&str]; 2] = [
            &["check", "--no-clock", "p"],
            &["check", "--no-clock", "--election", "p/key"],
        ];
        for arguments in checks {
            let checked = run(&agent.url(), arguments);
            assert_eq!(checked.code, Some(17), "{checked:?}");
            assert!(checked.stdout.contains("block_endpoints"), "{checked:?}");
            assert!(checked.stdout.contains(endpoint), "{checked:?}");
            assert!(!checked.stdout.contains("policy"), "{checked:?}");
        }
        let ran = run(&agent.url(), &["run", "p", "--", "true"]);
        ran.assert(122, "block_endpoints");
        if endpoint == "/v1/txn" {
            agent.assert_nothing_left("p");
        }
    }
}

#[test]
fn an_old_release_and_a_clock_that_runs_at_another_rate_are_told() {
    let old = FalseAgent {
        version: "1.7.9",
        rate: 1.0,
    };
    let checked = run(&old.start(), &["check", "--no-clock"]);
    assert_eq!(checked.code, Some(16), "{checked:?}");
    assert!(checked.stdout.contains("use 1.8.7 or newer"), "{checked:?}");
    let fast = FalseAgent {
        version: "1.8.7",
        rate: 10.0,
    };
    let checked = run(&fast.start(), &["check"]);
    assert_eq!(checked.code, Some(19), "{checked:?}");
    assert!(checked.stdout.contains("time service"), "{checked:?}");
}

#[test]
fn plain_http_where_tls_is_wanted_is_told_as_a_failure_of_tls() {
    let (agent, _) = scene();
    let url = agent.url().replace("http://", "https://");
    let checked = run(&url, &["check", "--no-clock"]);
    assert_eq!(checked.code, Some(11), "{checked:?}");
    assert!(checked.stdout.contains("use http://"), "{checked:?}");
}

#[test]
fn low_limits_strange_keys_and_clients_of_another_kind_are_told() {
    let agent = Agent::builder()
        .config("limits { http_max_conns_per_client = 20 }")
        .start()
        .expect("an agent");
    let checked = run(&agent.url(), &["check", "--no-clock", "p"]);
    assert_eq!(checked.code, Some(17), "{checked:?}");

    let (agent, prefix) = scene();
    let strange = format!("{prefix}/ä");
    let checked = run(agent.url(), &["check", "--no-clock", &strange]);
    assert_eq!(checked.code, Some(18), "{checked:?}");

    let record = format!("/v1/kv/{prefix}/.lock?flags=16210313421097356768");
    let body = br#"{"Limit":1,"Holders":[]}"#;
    agent.put(&record, body).expect("an answer");
    let checked = run(agent.url(), &["check", "--no-clock", &prefix]);
    assert_eq!(checked.code, Some(20), "{checked:?}");
}
