//! Tests a token's permissions by using them: with a session as `run` makes it, a key that no client
//! reads, and a write of the record, or of the election's key, that comes too late to change it.

use std::time::Duration;

use semaphore_core::sans_io::api::{
    AcquireKey, CreateSession, DestroySession, ListKeys, Operation, ReadKey, Txn, TxnFault,
    TxnFaultKind, TxnOutcome,
};
use semaphore_core::sans_io::{Index, SessionOptions};
use transport_ureq::{LockKey, Prefix, RequestError, SessionId};

use super::target::Target;
use super::{Finding, KEY, LIMITS, PERMISSION, is_of_acls};
use crate::agent::Agent;
use crate::failure::Failure;
use crate::identity::Identity;

const ABOUT: &str = "permissions";

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
        .with_lock_delay(Duration::ZERO)?)
}

pub(super) async fn check(
    agent: &Agent,
    target: &Target,
    session: &SessionOptions,
    node: Option<&str>,
) -> Finding {
    match tried(agent, target, session).await {
        Ok(()) => Finding::good(ABOUT, format!("all that {target} needs")),
        Err(Fault::Denied(what, text)) => Finding::bad(
            ABOUT,
            PERMISSION,
            format!("{what} is refused: {text}"),
            format!(
                "give the token this policy, which is the least:\n{}",
                target.policy(node)
            ),
        ),
        Err(Fault::Refused(what, failure)) => {
            let (exit, advice) = match &failure {
                Failure::Request(RequestError::InvalidKey { .. }) => (KEY, "use another name"),
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

async fn tried(agent: &Agent, target: &Target, options: &SessionOptions) -> Result<(), Fault> {
    let session = created(agent, options).await.map_err(judged(
        "making a session (session write on the agent's node)",
    ))?;
    let keys = match target {
        Target::Semaphore(prefix) => used(agent, prefix, &session).await,
        Target::Election(key) => touched(agent, key).await,
    };
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
    let record = prefix.record_key();
    may_write(
        agent,
        &record,
        "writing the record (key write on PREFIX/.lock)",
    )
    .await?;
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

/// Tries to write an election's key, and checks whether it can be read.
async fn touched(agent: &Agent, key: &LockKey) -> Result<(), Fault> {
    may_write(agent, key.as_str(), "writing the key (key write)").await?;
    let read = ReadKey {
        key: key.as_str(),
        wait: None,
        consistent: true,
    };
    let answer = agent.send(read.request(&agent.scope())).await;
    let read = answer.and_then(|answer| ReadKey::parse(&answer).map(drop));
    read.map_err(Failure::from)
        .map_err(judged("reading the key (key read)"))
}

/// Tries to write a key that stays as it is, by a transaction as `run` does.
async fn may_write(agent: &Agent, key: &str, what: &'static str) -> Result<(), Fault> {
    // No key was last changed at this index, so nothing is written. Permissions are checked first.
    let write = Operation::Cas {
        key,
        index: Index(u64::MAX),
        value: b"",
        flags: 0,
    };
    let txn = Txn {
        operations: &[write],
    };
    let answer = agent.send(txn.request(&agent.scope())).await;
    let outcome = answer.and_then(|answer| Txn::parse(&answer).map(faults));
    let faults = outcome.map_err(Failure::from).map_err(judged(what))?;
    match faults
        .into_iter()
        .find(|fault| fault.kind == TxnFaultKind::Denied)
    {
        Some(fault) => Err(Fault::Denied(what, fault.text)),
        None => Ok(()),
    }
}

fn faults(outcome: TxnOutcome<'_>) -> Vec<TxnFault> {
    match outcome {
        TxnOutcome::Applied(_) => Vec::new(),
        TxnOutcome::RolledBack(faults) => faults,
    }
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
