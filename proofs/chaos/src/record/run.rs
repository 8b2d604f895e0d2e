//! The decisions before a run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The decisions before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The seed of all choices.
    pub seed: u64,
    /// The release of Consul. `None` is whichever is found.
    #[serde(default)]
    pub release: Option<Release>,
    /// Whether agents ask for tokens.
    #[serde(default)]
    pub acls: bool,
    /// How long things go wrong.
    pub chaos: Duration,
    /// The TTL of our sessions, except for clients with their own.
    pub ttl: Duration,
    /// The lock delay of our sessions. `None` is the default.
    #[serde(default)]
    pub lock_delay: Option<Duration>,
    /// Whether Consul removes servers from the catalog that are dead for a while, and ends the
    /// sessions that were created through them. It does so by default.
    #[serde(default)]
    pub reaped: bool,
    /// How many client agents there are beside the servers.
    #[serde(default)]
    pub agents: usize,
    /// The places that clients contend for.
    pub places: Vec<Place>,
    /// The contenders and followers.
    pub clients: Vec<Client>,
}

/// A release of Consul: its major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release(pub u32, pub u32);

impl Release {
    /// The releases that runs are drawn for, each as often as the other.
    pub const DRAWN: [Self; 2] = [Self(1, 8), Self(1, 22)];
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('.').and_then(|(major, minor)| {
            let minor = minor.parse().ok()?;
            Some(Self(major.parse().ok()?, minor))
        });
        numbers.ok_or_else(|| "a release such as 1.22".to_owned())
    }
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

    /// How long nobody may lead after the end of a client's session.
    pub fn lock_delay_of(&self, client: usize) -> Duration {
        let default = || self.ttl_of(client).clamp(LOCK_DELAY, LONGEST_LOCK_DELAY);
        self.lock_delay.unwrap_or_else(default)
    }
}

/// The shortest default lock delay of an election, which is Consul's default.
const LOCK_DELAY: Duration = Duration::from_secs(15);
/// Consul's limit for longer ones.
const LONGEST_LOCK_DELAY: Duration = Duration::from_mins(1);

/// A semaphore with some slots, or an election, which has one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Which of the two.
    pub what: What,
    /// Its prefix in Consul. The key of an election is that of `consul lock`: see
    /// [`Self::record_key`].
    pub prefix: String,
    /// How many slots it has.
    pub limit: u32,
    /// How many tasks or threads of each client contend.
    pub contenders: u32,
}

impl Place {
    /// `<prefix>/.lock`: a semaphore's record, or an election's key.
    pub fn record_key(&self) -> String {
        format!("{}/.lock", self.prefix)
    }

    /// Whether it is an election.
    pub fn is_election(&self) -> bool {
        self.what == What::Election
    }
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A semaphore.
    Semaphore,
    /// An election.
    Election,
}

impl What {
    /// The name of a grant in a report.
    pub fn granted(self) -> &'static str {
        match self {
            Self::Semaphore => "slots",
            Self::Election => "leaderships",
        }
    }
}

/// A client process, with all its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its backend.
    pub backend: Backend,
    /// The number of the server that it talks to. Client agents have the numbers after the servers.
    pub server: usize,
    /// What it does.
    pub role: Role,
    /// The TTL of its sessions, if it differs from the run's.
    #[serde(default)]
    pub ttl: Option<Duration>,
    /// Whether its sessions use a node without a server, so they don't end with any server.
    #[serde(default)]
    pub own_node: bool,
    /// Whether it uses one `Client` for everything, so its semaphores share sessions.
    #[serde(default)]
    pub shares: bool,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It contends for all places.
    Contender,
    /// It follows all elections.
    Follower,
}

/// The backend of a client.
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
    /// The name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Threads => "threads",
            Self::Smol => "smol",
        }
    }
}
