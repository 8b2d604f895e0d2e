//! Campaigns for a key and leads until Ctrl-C. If the leadership is lost, it campaigns again.
//!
//! `cargo run --bin leader`, on the agent at `CONSUL_HTTP_ADDR`. Start it in several terminals, and
//! `discover` in another one. Stop the leader, and another one leads at once. `kill -9` it, and
//! another one leads after its session has expired and the lock delay is over. Without an agent it
//! leads on a Consul in memory for a moment.
//!
//! `--candidates 20 --term-ms 0 --terms 500` measures handovers instead. That number of candidates
//! runs in one process, and each leads for that time, until there were that many terms.
//!
//! `--shards 500 --hold-ms 30000` measures many elections, one for each shard: `<key>/0` and so on.
//! One client leads all of them. Another one waits for each and follows it.
//!
//! It reports when it leads and stops leading, in seconds since 1970 by the machine's clock, so
//! that several processes can be compared.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use examples::agent::Agent;
use examples::backend::{Backend, Hosts};
use examples::contest::{Contest, Sharing};
use examples::failure::Failure;
use examples::flags;
use examples::say;
use examples::shards::Shards;
use examples::wall::WallTime;
use serde::Serialize;
use transport_reqwest::{Builder, Election, Error, Leadership, LockKey, Lost};
use transport_ureq::SmolTransport;

/// How long a campaign waits for an agent before it reports that there is no answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a leader checks whether it still leads.
const ASKING: Duration = Duration::from_millis(10);

/// Campaigns for a key, and reports when it leads.
#[derive(Debug, Parser)]
struct Flags {
    /// The election's key, such as `service/db/leader`, or `<prefix>/.lock` of `consul lock`
    #[arg(default_value = "examples/discover/leader", value_parser = |key: &str| LockKey::new(key))]
    key: LockKey,
    /// The key's value while this one leads
    #[arg(long, default_value_t = format!("process {}", std::process::id()))]
    value: String,
    /// The TTL in seconds: the session of a crashed candidate ends after one to two of these
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    ttl: u64,
    /// For how many seconds nobody may lead after that [default: as the TTL, from 15 to 60]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=60))]
    lock_delay: Option<u64>,
    /// The name of a node without an agent for the session: then no agent or server that goes ends
    /// a term. It is registered if it is missing
    #[arg(long, value_name = "NAME", value_parser = flags::own_node)]
    own_node: Option<String>,
    /// Resigns after leading for this many milliseconds; on a Consul in memory the default is 2000
    #[arg(long)]
    hold_ms: Option<u64>,
    /// Measures how soon one of this many candidates follows the other
    #[arg(long, value_name = "COUNT")]
    candidates: Option<NonZeroUsize>,
    /// With `--candidates`: how many milliseconds each leads
    #[arg(long, default_value_t = 0, requires = "candidates")]
    term_ms: u64,
    /// With `--candidates`: the number of terms
    #[arg(long, default_value = "500", requires = "candidates")]
    terms: NonZeroUsize,
    /// With `--candidates`: what they share
    #[arg(long, value_enum, default_value_t = Sharing::Transport, requires = "candidates")]
    share: Sharing,
    /// With `--candidates` or `--shards`: prints the figures as JSON
    #[arg(long)]
    json: bool,
    /// Measures this many elections that one client leads and another one waits for
    #[arg(long, value_name = "COUNT", conflicts_with = "candidates")]
    shards: Option<NonZeroUsize>,
    /// What sends the requests and keeps the session
    #[arg(long, value_enum, default_value_t = Backend::Tokio)]
    backend: Backend,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let outcome = match (flags.candidates, flags.shards) {
        (Some(candidates), _) => contest(&flags, candidates),
        (None, Some(number)) => shards(&flags, number),
        (None, None) => run(&flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Lets the candidates lead in turn, and prints the cost.
fn contest(flags: &Flags, candidates: NonZeroUsize) -> Result<(), Failure> {
    let hosts = Hosts::new(flags.backend, Agent::find()?)?;
    let contest = Contest {
        hosts: &hosts,
        builder: &|| builder(flags),
        candidates,
        sharing: flags.share,
        term: Duration::from_millis(flags.term_ms),
        terms: flags.terms,
    };
    print(&contest.run()?, flags)
}

/// Leads many elections, hands them over, and prints the cost.
fn shards(flags: &Flags, shards: NonZeroUsize) -> Result<(), Failure> {
    let hosts = Hosts::new(flags.backend, Agent::find()?)?;
    let shards = Shards {
        hosts: &hosts,
        builder: &|number, value| {
            let key = format!("{}/{number}", flags.key);
            of(flags, &key, value)
        },
        shards,
        hold: Duration::from_millis(flags.hold_ms.unwrap_or(10_000)),
    };
    print(&shards.run()?, flags)
}

fn print(outcome: &(impl Display + Serialize), flags: &Flags) -> Result<(), Failure> {
    if flags.json {
        let json = serde_json::to_string(outcome);
        say!("{}", json.map_err(Failure::Json)?);
    } else {
        say!("{outcome}");
    }
    Ok(())
}

#[tokio::main]
async fn run(flags: &Flags) -> Result<(), Failure> {
    let agent = Agent::find()?;
    let election = connect(flags, &agent)?;
    // In memory nobody else can lead.
    let alone = agent.is_in_memory().then_some(2000);
    let hold = flags.hold_ms.or(alone).map(Duration::from_millis);

    let (value, key) = (&flags.value, &flags.key);
    say!("{value:?} campaigns for {key} on {}", agent.describe());
    let outcome = tokio::select! {
        led = lead(&election, hold) => led.map_err(Failure::Election),
        interrupted = tokio::signal::ctrl_c() => {
            say!("interrupted");
            interrupted.map_err(Failure::Signal)
        }
    };
    // An interrupted campaign or leadership is being given back. If the process ended now, that
    // would be left to the TTL.
    election.shutdown().await;
    if outcome.is_ok() {
        say!("stopped, another one may lead now");
    }
    outcome
}

fn builder(flags: &Flags) -> Builder<Election> {
    of(flags, flags.key.as_str(), &flags.value)
}

/// The election under this key.
fn of(flags: &Flags, key: &str, value: &str) -> Builder<Election> {
    let mut builder = Election::builder(key)
        .value(value)
        .ttl(Duration::from_secs(flags.ttl));
    if let Some(delay) = flags.lock_delay {
        builder = builder.lock_delay(Duration::from_secs(delay));
    }
    if let Some(name) = &flags.own_node {
        builder = builder.own_node(name);
    }
    builder
}

/// The election on the chosen backend. Your own program has one of the three.
fn connect(flags: &Flags, agent: &Agent) -> Result<Election, Failure> {
    let builder = builder(flags);
    let unbuilt = |error: Box<dyn std::error::Error + Send + Sync>| Failure::Backend(error);
    let connected = match flags.backend {
        Backend::Tokio => {
            let transport = agent.reqwest();
            builder.connect(transport.map_err(|error| unbuilt(error.into()))?)
        }
        Backend::Threads => {
            let transport = agent.ureq();
            builder.connect(transport.map_err(|error| unbuilt(error.into()))?)
        }
        Backend::Smol => {
            let transport = agent.ureq().map_err(|error| unbuilt(error.into()))?;
            builder.connect(SmolTransport::from(transport))
        }
    };
    connected.map_err(Failure::Election)
}

/// Leads, and again after each loss, until `hold` is over or a permanent failure.
async fn lead(election: &Election, hold: Option<Duration>) -> Result<(), Error> {
    loop {
        let leadership = campaign(election).await?;
        let (term, token) = (leadership.term(), leadership.fencing_token());
        let since = WallTime::now();
        say!("leads in term {term}, fencing token {token}, since {since}");
        // The work goes here. It ends with either of these.
        let (since, lost) = tokio::select! {
            lost = lost(&leadership) => lost,
            () = rest(hold) => return leadership.resign().await,
        };
        say!("leads no more since {since}: {}", lost);
    }
}

/// When it stopped leading, and why. It also checks regularly, since a check is right at once after
/// the process was frozen.
async fn lost(leadership: &Leadership) -> (WallTime, Lost) {
    tokio::select! {
        lost = leadership.lost() => return (WallTime::now(), lost),
        () = async {
            while leadership.is_leader() {
                tokio::time::sleep(ASKING).await;
            }
        } => {}
    }
    (WallTime::now(), leadership.lost().await)
}

/// Like [`Election::campaign`], but reports what it waits for.
async fn campaign(election: &Election) -> Result<Leadership, Error> {
    loop {
        match election.campaign_timeout(PATIENCE).await {
            Err(Error::Timeout { last_failure, .. }) => {
                if let Some(failure) = last_failure {
                    say!("still campaigns: {}", failure);
                }
            }
            outcome => return outcome,
        }
    }
}

async fn rest(hold: Option<Duration>) {
    match hold {
        Some(hold) => tokio::time::sleep(hold).await,
        None => std::future::pending().await,
    }
}
