//! Whether Consul knows the token.

use serde::Deserialize;

use super::{Finding, TOKEN, get, is_of_acls, said};
use crate::agent::Agent;
use crate::failure::whole;
use crate::identity::printable;

/// What Consul says about a token, without the secret.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Known {
    description: String,
    expiration_time: Option<String>,
}

pub(super) async fn check(agent: &Agent) -> Finding {
    const ABOUT: &str = "token";
    let has_token = agent.token().is_some();
    let answer = match get(agent, "/v1/acl/token/self").await {
        Ok(answer) => answer,
        Err(error) => return Finding::unknown(ABOUT, whole(&error)),
    };
    let text = String::from_utf8_lossy(answer.body());
    if text.contains("ACL support disabled") {
        return Finding::good(ABOUT, "ACLs are off: none is needed");
    }
    match answer.status() {
        200 => {
            let known: Known = serde_json::from_slice(answer.body()).unwrap_or_default();
            let mut text = format!("Consul knows it: {:?}", printable(&known.description));
            if let Some(end) = known.expiration_time {
                text.push_str(", until ");
                text.push_str(&printable(&end));
            }
            Finding::good(ABOUT, text)
        }
        // Without a permission nobody learns more about the anonymous token.
        403 | 404 if !has_token && is_of_acls(&text) => {
            Finding::unknown(ABOUT, "ACLs are on, and there is none")
        }
        401 | 403 | 404 if is_of_acls(&text) => Finding::bad(
            ABOUT,
            TOKEN,
            format!("Consul does not know it: {}", said(&answer)),
            "it may have been deleted, or have expired, or be another cluster's: set CONSUL_HTTP_TOKEN_FILE or \
             CONSUL_HTTP_TOKEN again",
        ),
        _ => Finding::unknown(ABOUT, said(&answer)),
    }
}
