//! What is wrong with the connection to Consul, with an exit code for each case.

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

    let client = agent.client();
    let token = |rules: &str| {
        let name = format!("p{}", rules.len());
        let policy = serde_json::json!({ "Name": name, "Rules": rules }).to_string();
        let made = client.put("/v1/acl/policy", policy.as_bytes());
        assert_eq!(made.expect("an answer").status, 200);
        let token = serde_json::json!({ "Policies": [{ "Name": name }] }).to_string();
        let made = client.put("/v1/acl/token", token.as_bytes());
        let made = made.and_then(|answer| answer.json()).expect("a token");
        made["SecretID"].as_str().expect("a secret").to_owned()
    };
    let sessions = "session_prefix \"\" { policy = \"write\" }\n";
    for (rules, said) in [
        (
            "key_prefix \"p/\" { policy = \"write\" }",
            "making a session",
        ),
        (sessions, "writing below the prefix"),
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
