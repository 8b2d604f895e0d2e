//! A command that Consul refuses leaves nothing behind when it ends.

use real_agent::{Agent, Client};

use crate::support::{Ran, program, run_with};

const MANAGEMENT: &str = "11111111-2222-3333-4444-555555555555";

/// A token with these rules.
fn token(admin: &Client, rules: &str) -> String {
    let policy = serde_json::json!({ "Name": "refused", "Rules": rules }).to_string();
    let made = admin.put("/v1/acl/policy", policy.as_bytes());
    assert_eq!(made.expect("an answer").status, 200);
    let token = serde_json::json!({ "Policies": [{ "Name": "refused" }] }).to_string();
    let made = admin.put("/v1/acl/token", token.as_bytes());
    let made = made.and_then(|answer| answer.json()).expect("a token");
    made["SecretID"].as_str().expect("a secret").to_owned()
}

fn run_as(token: &str, agent: &Agent, arguments: &[&str]) -> Ran {
    let mut command = program(&agent.url(), arguments);
    command.env("CONSUL_HTTP_TOKEN", token);
    run_with(command, "")
}

#[track_caller]
fn assert_no_sessions(admin: &Client) {
    let sessions = admin.get("/v1/session/list").expect("an answer");
    assert_eq!(sessions.text().trim(), "[]");
}

#[test]
fn a_run_whose_token_may_only_read_the_record_leaves_no_session_and_no_key() {
    let agent = Agent::builder().acl(MANAGEMENT).start().expect("an agent");
    let admin = agent.client();
    let first = run_as(MANAGEMENT, &agent, &["run", "t/m", "--", "true"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let rules = r#"
        key_prefix "t/m/" { policy = "write" }
        key "t/m/.lock" { policy = "read" }
        session_prefix "" { policy = "write" }"#;
    let token = token(&admin, rules);
    run_as(&token, &agent, &["run", "t/m", "--", "true"]).assert(122, "denies");
    let left = admin.leftovers("t/m").expect("an answer");
    assert!(left.is_empty(), "{left}");
    assert_no_sessions(&admin);
}

#[test]
fn elections_whose_token_may_only_read_the_key_leave_no_session() {
    let agent = Agent::builder().acl(MANAGEMENT).start().expect("an agent");
    let admin = agent.client();
    let lead = ["elect", "run", "t/leader", "--", "true"];
    let first = run_as(MANAGEMENT, &agent, &lead);
    assert_eq!(first.code, Some(0), "{first:?}");
    let rules = r#"
        key "t/leader" { policy = "read" }
        session_prefix "" { policy = "write" }"#;
    let token = token(&admin, rules);
    for _ in 0..10 {
        run_as(&token, &agent, &lead).assert(122, "denies");
        assert_no_sessions(&admin);
    }
}
