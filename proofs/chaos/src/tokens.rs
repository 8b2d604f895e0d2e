//! The tokens of a run whose agents ask for them. They are no secrets: they end with the run.

use std::time::{Duration, Instant};
use std::{io, thread};

use real_agent::Client as Admin;
use semaphore_core::{Scope, Token};
use serde_json::{Value, json};

use crate::failure::{Failure, Try as _};
use crate::record::Run;

/// May do everything.
pub(crate) const MANAGEMENT: &str = "5f0d1b8e-6a3c-4a51-9a70-27d0c2b8f151";

/// The policy of clients, also for sessions on a separate node.
const ALL: &str = r#"
key_prefix "chaos/" { policy = "write" }
session_prefix "" { policy = "write" }
node_prefix "" { policy = "write" }
agent_prefix "" { policy = "read" }
"#;

/// The same without the right to write sessions.
const RESTRICTED: &str = r#"
key_prefix "chaos/" { policy = "write" }
session_prefix "" { policy = "read" }
node_prefix "" { policy = "write" }
agent_prefix "" { policy = "read" }
"#;

const PATIENCE: Duration = Duration::from_secs(30);

/// The names of the policies.
const POLICIES: [(&str, &str); 2] = [("chaos-all", ALL), ("chaos-restricted", RESTRICTED)];

/// The token of who looks after a run, if one is needed.
pub(crate) fn of_admin(run: &Run) -> Option<String> {
    run.acls.then(|| MANAGEMENT.to_owned())
}

/// Requests with this token, if one is needed.
///
/// # Errors
/// If it is no token.
pub(crate) fn scope(token: Option<String>) -> Result<Scope, Failure> {
    let token = token.map(Token::new).transpose().doing("making a token")?;
    let scope = Scope::default();
    Ok(match token {
        Some(token) => scope.with_token(token),
        None => scope,
    })
}

/// The token of a client.
pub(crate) fn secret(client: usize) -> String {
    format!("c4a05000-0000-4000-8000-{client:012x}")
}

fn accessor(client: usize) -> String {
    format!("c4a05acc-0000-4000-8000-{client:012x}")
}

/// Makes the tokens of all clients.
///
/// # Errors
/// If Consul still refuses one after half a minute. In its first seconds, a cluster of 1.8 says that
/// its ACLs are in legacy mode.
pub(crate) fn make(admin: &Admin, run: &Run) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match make_at_once(admin, run) {
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(100)),
            made => return made,
        }
    }
}

fn make_at_once(admin: &Admin, run: &Run) -> io::Result<()> {
    for (name, rules) in POLICIES {
        let policy = json!({ "Name": name, "Rules": rules });
        if !has_policy(admin, name)? {
            put(admin, "/v1/acl/policy", &policy)?;
        }
    }
    (0..run.clients.len()).try_for_each(|client| give(admin, client))
}

/// A client's token may do everything again that the client needs. It is made if it does not exist.
///
/// # Errors
/// If Consul refuses.
pub(crate) fn give(admin: &Admin, client: usize) -> io::Result<()> {
    let token = token(client, POLICIES[0].0);
    let path = format!("/v1/acl/token/{}", accessor(client));
    put(admin, &path, &token).or_else(|_| put(admin, "/v1/acl/token", &token))
}

/// A client's token may not write sessions any more.
///
/// # Errors
/// If Consul refuses.
pub(crate) fn restrict(admin: &Admin, client: usize) -> io::Result<()> {
    let path = format!("/v1/acl/token/{}", accessor(client));
    put(admin, &path, &token(client, POLICIES[1].0))
}

/// Deletes a client's token.
///
/// # Errors
/// If Consul refuses.
pub(crate) fn delete(admin: &Admin, client: usize) -> io::Result<()> {
    let answer = admin.delete(&format!("/v1/acl/token/{}", accessor(client)))?;
    match answer.status {
        200 => Ok(()),
        status => Err(io::Error::other(format!("{status}: {}", answer.text()))),
    }
}

/// Whether a policy of this name exists.
fn has_policy(admin: &Admin, name: &str) -> io::Result<bool> {
    let policies = admin.get("/v1/acl/policies")?.json()?;
    let mut policies = policies.as_array().into_iter().flatten();
    Ok(policies.any(|it| it["Name"] == name))
}

fn token(client: usize, policy: &str) -> Value {
    json!({
        "AccessorID": accessor(client),
        "SecretID": secret(client),
        "Policies": [{ "Name": policy }],
    })
}

fn put(admin: &Admin, path: &str, body: &Value) -> io::Result<()> {
    let answer = admin.put(path, body.to_string().as_bytes())?;
    match answer.status {
        200 => Ok(()),
        status => Err(io::Error::other(format!("{status}: {}", answer.text()))),
    }
}
