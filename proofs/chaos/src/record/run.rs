//! The decisions before a run.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What was decided before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What all choices came from.
    pub seed: u64,
    /// How long things went wrong.
    pub chaos: Duration,
    /// The TTL of our sessions, unless a client has another one.
    pub ttl: Duration,
    /// The lock delay of our sessions; none for the default, which is right.
    #[serde(default)]
    pub lock_delay: Option<Duration>,
    /// Whether Consul takes servers that are dead for a while out of the catalog, and ends the sessions
    /// that were made through them, as it does by default.
    #[serde(default)]
    pub reaped: bool,
    /// How many client agents there are beside the servers.
    #[serde(default)]
    pub agents: usize,
    /// What is contended for.
    pub places: Vec<Place>,
    /// Who contends and who follows.
    pub clients: Vec<Client>,
}

impl Run {
    /// The TTL of the sessions of a client.
    pub fn ttl_of(&self, client: usize) -> Duration {
        let own = self.clients.get(client).and_then(|client| client.ttl);
        own.unwrap_or(self.ttl)
    }

    /// The longest of all.
    pub fn longest_ttl(&self) -> Duration {
        let ttls = (0..self.clients.len()).map(|client| self.ttl_of(client));
        ttls.max().unwrap_or(self.ttl)
    }

    /// For how long nobody leads after a session of a client has ended.
    pub fn lock_delay_of(&self, client: usize) -> Duration {
        let default = || self.ttl_of(client).clamp(LOCK_DELAY, LONGEST_LOCK_DELAY);
        self.lock_delay.unwrap_or_else(default)
    }
}

/// The shortest that an election has by default, which is Consul's default.
const LOCK_DELAY: Duration = Duration::from_secs(15);
/// What Consul makes of longer ones.
const LONGEST_LOCK_DELAY: Duration = Duration::from_mins(1);

/// What is contended for: a semaphore of some slots, or an election, which has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Which of the two.
    pub what: What,
    /// Where it lives. The key of an election is that of `consul lock`: see [`Self::record_key`].
    pub prefix: String,
    /// How many slots it has.
    pub limit: u32,
    /// How many tasks or threads of each client contend.
    pub contenders: u32,
}

impl Place {
    /// `<prefix>/.lock`: the record of a semaphore, the key of an election.
    pub fn record_key(&self) -> String {
        format!("{}/.lock", self.prefix)
    }

    /// Whether it is an election.
    pub fn is_election(&self) -> bool {
        self.what == What::Election
    }
}

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A semaphore.
    Semaphore,
    /// An election.
    Election,
}

impl What {
    /// What is granted there, as it is written in a report.
    pub fn granted(self) -> &'static str {
        match self {
            Self::Semaphore => "slots",
            Self::Election => "leaderships",
        }
    }
}

/// A client process, whatever becomes of its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// What it runs on.
    pub backend: Backend,
    /// What it talks to: one of the servers, or a client agent, which are counted on from them.
    pub server: usize,
    /// What it does.
    pub role: Role,
    /// The TTL of its sessions, when it is another one than the run's.
    #[serde(default)]
    pub ttl: Option<Duration>,
    /// Whether its sessions stand on a node that no server stands for: they end with none.
    #[serde(default)]
    pub own_node: bool,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It contends for all places.
    Contender,
    /// It follows all elections.
    Follower,
}

/// What a client runs on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `transport-reqwest`.
    Tokio,
    /// `transport-ureq`, with blocking handles.
    Threads,
    /// `transport-ureq` on smol's executor.
    Smol,
}

impl Backend {
    /// As it is written in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Threads => "threads",
            Self::Smol => "smol",
        }
    }
}
