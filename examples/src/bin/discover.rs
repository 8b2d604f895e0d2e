//! Follows the leader of an election and prints each change, until Ctrl-C.
//!
//! `cargo run --bin discover -- service/db/leader`, on the agent at `CONSUL_HTTP_ADDR`. Without an
//! agent it uses a Consul in memory, where two nodes lead in turn.

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use examples::agent::Agent;
use examples::say;
use transport_reqwest::{Discovery, Election, Leader, LeaderEvent, LockKey, ReqwestTransport};

/// Prints who leads an election, and each change of it.
#[derive(Debug, Parser)]
struct Flags {
    /// The election's key, such as `service/db/leader`, or `<prefix>/.lock` of `consul lock`
    #[arg(default_value = "examples/discover/leader", value_parser = |key: &str| LockKey::new(key))]
    key: LockKey,
    /// Ends after this many changes
    #[arg(long)]
    changes: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let flags = Flags::parse();
    let agent = Agent::find()?;
    let transport = agent.reqwest()?;
    if agent.is_in_memory() {
        tokio::spawn(lead_in_turn(transport.clone(), flags.key.clone()));
    }

    let discovery = Discovery::builder(flags.key.as_str()).connect(transport)?;
    say!("following {} on {}", flags.key, agent.describe());
    // Either branch is dropped wherever it waits, and leaves nothing behind.
    tokio::select! {
        followed = follow(&discovery, flags.changes) => followed,
        interrupted = tokio::signal::ctrl_c() => {
            say!("interrupted");
            Ok(interrupted?)
        }
    }
}

async fn follow(
    discovery: &Discovery,
    changes: Option<u64>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut follower = discovery.follow();
    let mut seen = 0;
    while changes.is_none_or(|changes| seen < changes) {
        let Some(event) = follower.next().await else {
            break;
        };
        seen += 1;
        match event? {
            LeaderEvent::Elected(leader) => {
                say!("{} leads{}", shown(&leader), term(discovery, &leader).await);
            }
            LeaderEvent::ValueChanged(leader) => say!("it says {} now", shown(&leader)),
            LeaderEvent::Leaderless { .. } => say!("nobody leads"),
            LeaderEvent::Interrupted(error) => say!("cut off: {error}"),
            LeaderEvent::Resumed => say!("connected again"),
            other => say!("{other:?}"),
        }
        if say::is_unread() {
            break;
        }
    }
    Ok(())
}

/// A value may be any bytes from anybody: it must not move the terminal's cursor.
fn shown(leader: &Leader) -> String {
    match leader.text() {
        Some(text) => format!("{text:?}"),
        None => format!("somebody ({} bytes)", leader.value.len()),
    }
}

/// What Consul knows about the leader's session. It is left out if the token may not read it.
async fn term(discovery: &Discovery, leader: &Leader) -> String {
    let Ok(Some(session)) = discovery.holder(leader).await else {
        return String::new();
    };
    let ttl = session
        .ttl
        .map_or_else(|| "no TTL".to_owned(), |ttl| format!("TTL {ttl:?}"));
    format!(
        " from node {} ({:?}, {ttl}), sequencer {}",
        session.node,
        session.name,
        leader.sequencer()
    )
}

/// Gives the program something to show on an unused Consul.
async fn lead_in_turn(
    transport: ReqwestTransport,
    key: LockKey,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let pause = || tokio::time::sleep(Duration::from_millis(500));
    for node in ["node-1", "node-2"].into_iter().cycle() {
        pause().await;
        let election = Election::builder(&key)
            .value(node)
            .connect(transport.clone())?;
        let leadership = election.campaign().await?;
        pause().await;
        leadership.set_value(format!("{node}, moved")).await?;
        pause().await;
        leadership.resign().await?;
    }
    Ok(())
}
