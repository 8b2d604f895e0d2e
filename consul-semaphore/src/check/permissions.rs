//! Tests a token's permissions by using them: with a session of a few seconds, and a key that no
//! client reads.

use std::time::Duration;

use semaphore_core::sans_io::SessionOptions;
use semaphore_core::sans_io::api::{AcquireKey, CreateSession, DestroySession, ListKeys};
use transport_ureq::{Behavior, Prefix, RequestError, SessionId};

use super::{Finding, PERMISSION};
use crate::agent::Agent;
use crate::failure::{Failure, whole};

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
    Denied(&'static str, String),
    Other(String),
}

pub(super) async fn check(agent: &Agent, prefix: &Prefix, node: Option<&str>) -> Finding {
    match tried(agent, prefix).await {
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
        Err(Fault::Other(text)) => Finding::unknown(ABOUT, text),
    }
}

async fn tried(agent: &Agent, prefix: &Prefix) -> Result<(), Fault> {
    let session = created(agent).await.map_err(judged(
        "making a session (session write on the agent's node)",
    ))?;
    let keys = used(agent, prefix, &session).await;
    // The end of the session deletes its key.
    let destroy = DestroySession { session: &session }.request(&agent.scope());
    let destroyed = agent.send(destroy).await;
    let destroyed = destroyed.and_then(|answer| DestroySession::parse(&answer));
    keys?;
    destroyed.map_err(|error| Fault::Other(whole(&error)))
}

async fn created(agent: &Agent) -> Result<SessionId, Failure> {
    let options = SessionOptions::new()
        .with_name("consul-semaphore check")?
        .with_ttl(SessionOptions::MIN_TTL)?
        .with_lock_delay(Duration::ZERO)?
        .with_behavior(Behavior::Delete);
    let create = CreateSession { options: &options };
    let answer = agent.send(create.request(&agent.scope())).await?;
    Ok(CreateSession::parse(&answer)?)
}

/// Writes a key below the prefix, and checks whether it can be read there.
async fn used(agent: &Agent, prefix: &Prefix, session: &SessionId) -> Result<(), Fault> {
    // It is not directly below the prefix, so it is not a contender's.
    let key = format!("{}.check/{session}", prefix.directory());
    let acquire = AcquireKey {
        key: &key,
        session,
        value: b"",
        flags: 0,
    };
    let answer = agent.send(acquire.request(&agent.scope())).await;
    answer
        .and_then(|answer| AcquireKey::parse(&answer))
        .map_err(Failure::from)
        .map_err(judged("writing below the prefix (key_prefix write)"))?;
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
        Failure::Request(RequestError::Denied { text, .. }) => Fault::Denied(what, text.clone()),
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
