//! Tests a token's permissions by using them: with a session as `run` makes it, a key that no client
//! reads, and a write of the record that comes too late to change it.

use std::time::Duration;

use semaphore_core::sans_io::api::{AcquireKey, CasKey, CreateSession, DestroySession, ListKeys};
use semaphore_core::sans_io::{Index, SessionOptions};
use transport_ureq::{Behavior, Prefix, RequestError, SessionId};

use super::{Finding, KEY, LIMITS, PERMISSION, is_of_acls};
use crate::agent::Agent;
use crate::failure::Failure;
use crate::identity::Identity;

const ABOUT: &str = "permissions";

/// The least policy that a token needs for this semaphore, ready to paste.
pub(super) fn policy(prefix: &Prefix, node: Option<&str>) -> String {
    let session = match node {
        Some(node) => format!("session {node:?} {{ policy = \"write\" }}"),
        None => "session_prefix \"\" { policy = \"write\" } # or: session \"NODE\", the agent's"
            .to_owned(),
    };
    let keys = prefix.directory();
    format!("key_prefix {keys:?} {{ policy = \"write\" }}\n{session}\n")
}

/// What went wrong, and where.
enum Fault {
    /// The token lacks a permission.
    Denied(&'static str, String),
    /// `run` would be refused, too.
    Refused(&'static str, Failure),
    /// It may pass.
    Other(String),
}

/// The session that `run` would make, but for its end: what it holds is free at once.
pub(super) fn session(ttl: Duration) -> Result<SessionOptions, Failure> {
    Ok(SessionOptions::new()
        .with_name("consul-semaphore check")?
        .with_ttl(ttl)?
        .with_lock_delay(Duration::ZERO)?
        .with_behavior(Behavior::Delete))
}

pub(super) async fn check(
    agent: &Agent,
    prefix: &Prefix,
    session: &SessionOptions,
    node: Option<&str>,
) -> Finding {
    match tried(agent, prefix, session).await {
        Ok(()) => Finding::good(ABOUT, format!("all that {prefix} needs")),
        Err(Fault::Denied(what, text)) => Finding::bad(
            ABOUT,
            PERMISSION,
            format!("{what} is refused: {text}"),
            format!(
                "give the token this policy, which is the least:\n{}",
                policy(prefix, node)
            ),
        ),
        Err(Fault::Refused(what, failure)) => {
            let (exit, advice) = match &failure {
                Failure::Request(RequestError::InvalidKey { .. }) => (KEY, "use another prefix"),
                _ => (LIMITS, REFUSED),
            };
            let text = format!("{what} is refused: {}", failure.whole());
            Finding::bad(ABOUT, exit, text, advice)
        }
        Err(Fault::Other(text)) => Finding::unknown(ABOUT, text),
    }
}

/// Settings by which an agent refuses what the token may do.
const REFUSED: &str = "`run` would be refused, too: see session_ttl_min of the servers and --ttl; http_config.block_endpoints and \
                       allow_write_http_from; limits.kv_max_value_size; and what stands before the agent";

async fn tried(agent: &Agent, prefix: &Prefix, options: &SessionOptions) -> Result<(), Fault> {
    let session = created(agent, options).await.map_err(judged(
        "making a session (session write on the agent's node)",
    ))?;
    let keys = used(agent, prefix, &session).await;
    // The end of the session deletes its key.
    let destroy = DestroySession { session: &session }.request(&agent.scope());
    let destroyed = agent.send(destroy).await;
    let destroyed = destroyed.and_then(|answer| DestroySession::parse(&answer));
    keys?;
    destroyed
        .map_err(Failure::from)
        .map_err(judged("ending a session"))
}

async fn created(agent: &Agent, options: &SessionOptions) -> Result<SessionId, Failure> {
    let create = CreateSession { options };
    let answer = agent.send(create.request(&agent.scope())).await?;
    Ok(CreateSession::parse(&answer)?)
}

/// Writes a key below the prefix, tries to write the record, and checks whether all can be read.
async fn used(agent: &Agent, prefix: &Prefix, session: &SessionId) -> Result<(), Fault> {
    // It is not directly below the prefix, so it is not a contender's.
    let key = format!("{}.check/{session}", prefix.directory());
    let acquire = AcquireKey {
        key: &key,
        session,
        value: &Identity::of_this_process().to_value(),
        flags: 0,
    };
    let answer = agent.send(acquire.request(&agent.scope())).await;
    answer
        .and_then(|answer| AcquireKey::parse(&answer))
        .map_err(Failure::from)
        .map_err(judged("writing below the prefix (key_prefix write)"))?;
    // No key was last changed at this index, so nothing is written. Permissions are checked first.
    let write = CasKey {
        key: &prefix.record_key(),
        index: Index(u64::MAX),
        value: b"",
        flags: 0,
    };
    let answer = agent.send(write.request(&agent.scope())).await;
    answer
        .and_then(|answer| CasKey::parse(&answer))
        .map_err(Failure::from)
        .map_err(judged("writing the record (key write on PREFIX/.lock)"))?;
    let what = "reading all below the prefix (key_prefix read)";
    let list = ListKeys {
        prefix,
        wait: None,
        consistent: true,
    };
    let answer = agent.send(list.request(&agent.scope())).await;
    let answer = answer.map_err(Failure::from).map_err(judged(what))?;
    let list = ListKeys::parse(&answer)
        .map_err(Failure::from)
        .map_err(judged(what))?;
    // Agents before 1.11 don't say that they leave out what may not be read.
    if list.filtered || !list.entries.iter().any(|entry| entry.key() == key) {
        let text = "the list leaves keys out".to_owned();
        return Err(Fault::Denied(what, text));
    }
    Ok(())
}

fn judged(what: &'static str) -> impl FnOnce(Failure) -> Fault {
    move |failure| match &failure {
        Failure::Request(RequestError::Denied { text, .. }) if is_of_acls(text) => {
            Fault::Denied(what, text.clone())
        }
        Failure::Request(error) if error.is_permanent() => Fault::Refused(what, failure),
        _ => Fault::Other(failure.whole()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_policy_names_the_prefix_and_the_node() {
        let prefix = Prefix::new("service/db").unwrap();
        assert_eq!(
            policy(&prefix, Some("node-1")),
            "key_prefix \"service/db/\" { policy = \"write\" }\nsession \"node-1\" { policy = \"write\" }\n"
        );
        assert!(policy(&prefix, None).contains("session_prefix \"\""));
    }
}
