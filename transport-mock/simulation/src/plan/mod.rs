//! What a seed draws, as a value: everything that will be done to a world, and when.
//!
//! ```text
//!  seed ──draw──▶ Plan ──run──▶ Report, or a violation ──shrink──▶ a shorter Plan
//! ```
//! A plan alone decides what happens, so it can be cut down, printed and run again.

mod draw;
mod pieces;
mod story;

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::{Behavior, Dialect, Encoding};
use transport_mock::Fault;

pub use pieces::{Piece, Pieces};

/// Local clocks and Consul's run at between this and its counterpart above one, as fast as the
/// true clock. The lease's margin is a tenth.
pub const SLOWEST_CLOCK: f64 = 0.95;
/// See [`SLOWEST_CLOCK`].
pub const FASTEST_CLOCK: f64 = 1.05;

/// The TTL of strangers' sessions.
pub(crate) const STRANGERS_TTL: Duration = Duration::from_secs(30);

/// Everything that will be done to a world, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the world and the participants draw from: latencies, jitter, ids.
    pub seed: u64,
    /// How many slots each prefix has.
    pub limit: u32,
    /// The TTL of our sessions.
    pub ttl: Duration,
    /// What becomes of contender keys when their session ends.
    pub behavior: Behavior,
    /// How many prefixes there are.
    pub prefixes: usize,
    /// The longest that a message travels.
    pub latency: Duration,
    /// How long a session lives after its last renewal, in TTLs of the true clock.
    pub lifetime: f64,
    /// Whether tokens are asked for, and if so whether reads that leave something out say so.
    pub access_control: Option<Told>,
    /// How long things go wrong. Then it is quiet.
    pub storm: Duration,
    /// Where our users are.
    pub hosts: Vec<HostPlan>,
    /// Who else contends.
    pub strangers: Vec<StrangerPlan>,
    /// How strangers spell the record. In another dialect than Go's they were here before us, and
    /// left an empty one.
    pub dialect: Dialect,
    /// What is done to the world, in the order of time.
    pub deeds: Vec<(Duration, Deed)>,
}

/// Whether a read that leaves keys out says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In a header, as from Consul 1.11 on.
    InHeader,
    /// It does not, as before.
    NotAtAll,
}

/// A host with one process, which has one semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    /// What deeds call it.
    pub number: usize,
    /// Which prefix its semaphore has.
    pub prefix: usize,
    /// How fast its clock runs.
    pub clock: f64,
    /// How its semaphore encodes its steps.
    pub encoding: Encoding,
    /// How many contenders are no crowd to it.
    pub crowd: usize,
    /// From when on its agent serves no transactions any more.
    pub refuses_from: Option<Duration>,
    /// The tasks in its process.
    pub users: Vec<UserPlan>,
    /// What its requests meet, by their number among those of their sort.
    pub troubles: BTreeMap<(Sort, u64), Trouble>,
}

/// A sort of requests, to aim troubles at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Any.
    Any,
    /// What changes the record.
    Record,
    /// What makes, changes or deletes a contender key.
    Key,
    /// The creation or the end of a session.
    Session,
    /// The renewal of a session.
    Renewal,
    /// A read, blocking or not.
    Read,
}

/// One task that uses a semaphore again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct UserPlan {
    /// What it does before the storm is over.
    pub turns: Vec<Turn>,
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How long it does something else before.
    pub idle: Duration,
    /// How it asks.
    pub how: How,
    /// For how many permits.
    pub permits: u32,
    /// How long it holds them.
    pub hold: Duration,
    /// How it gives them back.
    pub end: End,
}

/// How a user asks for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It waits.
    Acquire,
    /// It waits for so long.
    Within(Duration),
    /// It takes what is free.
    Try,
    /// It waits, and drops the future after so long.
    CancelAfter(Duration),
}

/// How a user gives permits back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It waits for the release.
    Release,
    /// It drops the permit.
    Drop,
    /// It waits for the release for so long, and drops the future.
    Abandon(Duration),
}

/// What one request meets.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// A fault of the network.
    Fault(Fault),
    /// This is done to the world so long after it was sent.
    Deed(Duration, Deed),
}

/// Somebody who does not use this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangerPlan {
    /// What its host is called.
    pub number: usize,
    /// Where it contends.
    pub prefix: usize,
    /// When it comes.
    pub at: Duration,
    /// What it does.
    pub kind: Stranger,
}

/// What a stranger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It follows the algorithm of Go's client and the guide: no queue, prune, check and set.
    Go {
        /// How often it acquires.
        turns: u32,
        /// How long it holds.
        hold: Duration,
    },
    /// It has a contender key and never claims. It stays for so long.
    Stuck(Duration),
}

/// What is done to the world. Hosts are named by their numbers.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Deed {
    /// The process ends; another one starts after so long.
    Kill { host: usize, down: Duration },
    /// The process stands still.
    Pause { host: usize, time: Duration },
    /// All messages of the host are lost.
    Partition { host: usize, time: Duration },
    /// All messages of the host are held back.
    Stall { host: usize, time: Duration },
    /// The host's agent refuses connections.
    AgentDown { host: usize, time: Duration },
    /// The host reads from an agent that lags behind.
    Lag { host: usize, time: Duration },
    /// The host's token may not read some keys.
    Restrict {
        host: usize,
        what: Hidden,
        time: Duration,
    },
    /// There is no leader for so long, then TTLs start anew.
    LoseLeader { time: Duration },
    /// There is no leader for so long, then one that lacks so many of the last changes, or all of them
    /// if there are fewer, and takes so long to apply them.
    SlowLeader {
        without: Duration,
        lacks: usize,
        time: Duration,
    },
    /// All indexes are counted anew.
    ResetIndex,
    /// The state is saved.
    Snapshot,
    /// The state that was saved last is restored.
    Restore,
    /// An operator destroys a session.
    DestroySession { nth: usize },
    /// An operator deletes a contender key.
    DeleteKey { prefix: usize, nth: usize },
    /// An operator takes a holder out of the record.
    RemoveHolder { prefix: usize, nth: usize },
    /// An operator deletes the record.
    DeleteRecord { prefix: usize },
    /// An operator writes something else over the record, and deletes that after so long.
    Garble { prefix: usize, time: Duration },
    /// An operator changes the record's limit.
    Resize { prefix: usize, limit: u32 },
}

/// What a token may not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// The contender keys that others have at that moment.
    Others,
    /// Every contender key.
    Contenders,
    /// Everything.
    Everything,
}

impl Plan {
    /// The prefix of this number.
    pub fn prefix(number: usize) -> String {
        format!("service/{}", ["db", "queue", "jobs"][number % 3])
    }

    /// How long a participant waits at most between two attempts of one request.
    pub(crate) fn retry_cap(&self) -> Duration {
        (self.ttl / 10).min(Duration::from_secs(5))
    }

    /// How long a short request of ours may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.ttl / 5).min(Duration::from_secs(10))
    }

    /// How long a session can outlive its owner, on the true clock. Strangers end theirs when they
    /// leave, and only a snapshot can bring them back.
    pub(crate) fn longest_session(&self) -> Duration {
        let may_return =
            !self.strangers.is_empty() && self.has(|deed| matches!(deed, Deed::Restore));
        let ttl = if may_return {
            self.ttl.max(STRANGERS_TTL)
        } else {
            self.ttl
        };
        ttl.mul_f64(self.lifetime)
    }

    /// Whether one of the deeds, wherever it stands, is one of these.
    pub(crate) fn has(&self, is: impl Fn(&Deed) -> bool) -> bool {
        let timed = self.deeds.iter().map(|(_, deed)| deed);
        let caused = self.hosts.iter().flat_map(|host| {
            host.troubles.values().filter_map(|trouble| match trouble {
                Trouble::Deed(_, deed) => Some(deed),
                Trouble::Fault(_) => None,
            })
        });
        timed.chain(caused).any(is)
    }
}

impl Deed {
    /// Its name, for figures.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Pause { .. } => "pause",
            Self::Partition { .. } => "partition",
            Self::Stall { .. } => "stall",
            Self::AgentDown { .. } => "agent down",
            Self::Lag { .. } => "stale reads",
            Self::Restrict { .. } => "token restricted",
            Self::LoseLeader { .. } => "leader lost",
            Self::SlowLeader { .. } => "leader elected behind its log",
            Self::ResetIndex => "index reset",
            Self::Snapshot => "snapshot saved",
            Self::Restore => "snapshot restored",
            Self::DestroySession { .. } => "session destroyed",
            Self::DeleteKey { .. } => "contender key deleted",
            Self::RemoveHolder { .. } => "holder removed",
            Self::DeleteRecord { .. } => "record deleted",
            Self::Garble { .. } => "record garbled",
            Self::Resize { .. } => "record resized",
        }
    }
}
