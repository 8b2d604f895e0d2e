//! What the parties of a run write down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// What was decided before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What all choices came from.
    pub seed: u64,
    /// How long things went wrong.
    pub chaos: Duration,
    /// The TTL of our sessions.
    pub ttl: Duration,
    /// The lock delay of our sessions in elections.
    #[serde(default)]
    pub lock_delay: Duration,
    /// What is contended for.
    pub places: Vec<Place>,
    /// Who contends and who follows.
    pub clients: Vec<Client>,
}

/// What is contended for: a semaphore of some slots, or an election, which has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Which of the two.
    pub what: What,
    /// Where it lives. The key of an election is that of `consul lock`: see [`Self::lock_key`].
    pub prefix: String,
    /// How many slots it has.
    pub limit: u32,
    /// How many tasks or threads of each client contend.
    pub contenders: u32,
}

impl Place {
    /// `<prefix>/.lock`: the record of a semaphore, the key of an election.
    pub fn lock_key(&self) -> String {
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
    /// The server that it talks to.
    pub server: usize,
    /// What it does.
    pub role: Role,
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

/// What a client believes. `acquire` numbers its acquisitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Belief {
    /// It is about to ask.
    Wanted {
        /// Which acquisition.
        acquire: u64,
        /// For which place.
        prefix: String,
        /// How many slots at once.
        permits: u32,
        /// In which way it asks.
        way: Way,
    },
    /// It was granted.
    Granted {
        /// Which acquisition.
        acquire: u64,
        /// The fencing token.
        token: u64,
        /// The sessions that hold, one for each slot.
        sessions: Vec<String>,
        /// The end of the lease, if it was held when asked just after the line's moment.
        until: Option<Moment>,
    },
    /// It asked, just after the line's moment, before acting, and it was held.
    Held {
        /// Which acquisition.
        acquire: u64,
        /// The end of the lease.
        until: Moment,
    },
    /// It asked, just after the line's moment, and it was not held any more.
    NotHeld {
        /// Which acquisition.
        acquire: u64,
    },
    /// It was told of a loss.
    Lost {
        /// Which acquisition.
        acquire: u64,
        /// Why.
        reason: Reason,
        /// Why, in words.
        words: String,
    },
    /// It is about to give it back.
    Ending {
        /// Which acquisition.
        acquire: u64,
        /// Whether it was held when asked just after the line's moment.
        held: bool,
    },
    /// It gave it back.
    Ended {
        /// Which acquisition.
        acquire: u64,
        /// What went wrong with it.
        error: Option<String>,
    },
    /// It was not granted.
    NotGranted {
        /// Which acquisition.
        acquire: u64,
        /// Why not.
        outcome: Outcome,
        /// Why not, in words.
        words: Option<String>,
    },
    /// It wanted to change what the key of an election shows.
    Said {
        /// Which acquisition.
        acquire: u64,
        /// What it is to show.
        value: String,
        /// What became of it.
        outcome: Change,
        /// Why, in words.
        words: Option<String>,
    },
    /// It follows an election and learned this.
    Saw {
        /// Which one.
        prefix: String,
        /// What.
        sight: Sight,
    },
    /// The process is about to end in order: nothing of it is left in Consul.
    Stopped,
}

/// How a change of a value ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The key shows it.
    Done,
    /// The leadership was lost.
    Lost,
    /// With an error.
    Failed,
}

impl Change {
    /// As it is written in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "shown",
            Self::Lost => "lost with the leadership",
            Self::Failed => "failed",
        }
    }
}

/// What can be seen of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sight", rename_all = "snake_case")]
pub enum Sight {
    /// Somebody leads.
    Led {
        /// Its session.
        session: String,
        /// What it says of itself.
        value: String,
    },
    /// Nobody leads.
    Leaderless {
        /// What the key says all the same, if there is one.
        value: Option<String>,
    },
    /// Nothing can be seen for now.
    Interrupted,
    /// Something can be seen again.
    Resumed,
    /// Nothing will be seen any more.
    Failed {
        /// Why, in words.
        words: String,
    },
}

/// How an acquisition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// For as long as it takes.
    Plain,
    /// With a timeout.
    Timeout,
    /// Now or not at all.
    Try,
    /// Until the caller gives it up.
    Cancelled,
}

/// How an acquisition ends without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was free for one who would not wait.
    Refused,
    /// The time was over.
    TimedOut,
    /// The caller gave it up.
    Cancelled,
    /// With an error.
    Failed,
}

impl Outcome {
    /// As it is written in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TimedOut => "timed out",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// Why a slot or a leadership was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Consul knows no such session.
    SessionGone,
    /// The record names it no longer.
    RemovedFromHolders,
    /// The contender key is another's.
    ContenderKeyTaken,
    /// The key of the election is nobody's.
    KeyReleased,
    /// The key of the election is another's.
    KeyTaken,
    /// The key of the election was deleted.
    KeyDeleted,
    /// The key of the election was written by somebody else.
    KeyOverwritten,
    /// No renewal came through in time.
    LeaseExpired,
    /// The driver has ended.
    RuntimeEnded,
    /// One that this program does not know.
    Unknown,
}

impl Reason {
    /// As it is written in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionGone => "session gone",
            Self::RemovedFromHolders => "removed from holders",
            Self::ContenderKeyTaken => "contender key taken",
            Self::KeyReleased => "key released",
            Self::KeyTaken => "key taken",
            Self::KeyDeleted => "key deleted",
            Self::KeyOverwritten => "key overwritten",
            Self::LeaseExpired => "lease expired",
            Self::RuntimeEnded => "runtime ended",
            Self::Unknown => "unknown",
        }
    }
}

/// What the child of a `consul lock` writes. `name` is also part of its session's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Hold {
    /// It was started, so the slot is held.
    Began {
        /// Which one.
        name: String,
        /// Whose slot it is.
        prefix: String,
    },
    /// It still runs.
    Goes {
        /// Which one.
        name: String,
    },
    /// It is about to end.
    Ended {
        /// Which one.
        name: String,
    },
}

/// What the nemesis does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// Which kind.
    pub deed: Kind,
    /// To whom.
    pub target: Target,
    /// Whether it begins or is over.
    pub phase: Phase,
}

/// A kind of deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `SIGKILL`, and a start afterwards.
    Kill,
    /// `SIGSTOP`, and `SIGCONT` afterwards.
    Stop,
    /// `SIGTERM`, and a start when it has ended.
    Restart,
    /// All connections closed.
    Cut,
    /// Nothing comes through in either direction.
    Silence,
    /// Only answers don't come through.
    SilenceAnswers,
    /// The others' choice of another leader, which is none of the nemesis's own deeds.
    Elect,
}

impl Kind {
    /// As it is written in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "stopped and continued",
            Self::Restart => "restarted",
            Self::Cut => "cut off",
            Self::Silence => "silenced",
            Self::SilenceAnswers => "left without answers",
            Self::Elect => "elected",
        }
    }
}

/// To whom something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A server that leads.
    Leader(usize),
    /// A server that follows.
    Follower(usize),
    /// A client process or its connections.
    Client(usize),
}

/// Beginning and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It begins just after the line's moment.
    Begin,
    /// It was over at the line's moment.
    End,
}

/// A read of all sessions that the leader confirmed, begun at the line's moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// The server that was asked.
    pub server: usize,
    /// When the answer was there.
    pub end: Moment,
    /// The names of the `consul lock` holders whose sessions exist; none when there was no answer.
    pub locks: Option<Vec<String>>,
    /// The names of the holders of each place, read just afterwards.
    #[serde(default)]
    pub holders: Vec<Vec<String>>,
}

/// What was found when all was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When things stopped going wrong.
    pub quiet_from: Moment,
    /// Clients that had to be killed, since they did not end when told to.
    pub hung: Vec<String>,
    /// `consul lock` processes that had to be killed.
    pub hung_locks: u64,
    /// Names of our sessions that existed when all clients had ended.
    pub sessions: Vec<String>,
    /// Keys of our contenders, and keys of elections tied to our sessions, when all clients had ended.
    pub keys: Vec<String>,
    /// What there was at last, after one who acquired everything and gave it back.
    pub at_last: Vec<String>,
    /// What each election showed then.
    pub truths: Vec<Truth>,
    /// Why that one failed.
    pub last_failure: Option<String>,
}

/// What Consul's leader says of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Which one.
    pub prefix: String,
    /// What.
    pub sight: Sight,
}

/// Where the files of a run are.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// What was decided before.
    pub fn run(&self) -> PathBuf {
        self.0.join("run.json")
    }

    /// What was found at the end.
    pub fn end(&self) -> PathBuf {
        self.0.join("end.json")
    }

    /// The folder of the clients' beliefs.
    pub fn clients(&self) -> PathBuf {
        self.0.join("clients")
    }

    /// The beliefs of one incarnation of a client.
    pub fn client(&self, number: usize, incarnation: u32) -> PathBuf {
        self.clients().join(format!("{number}-{incarnation}.jsonl"))
    }

    /// What the holders of `consul lock` wrote.
    pub fn locks(&self) -> PathBuf {
        self.0.join("locks.jsonl")
    }

    /// What was done.
    pub fn deeds(&self) -> PathBuf {
        self.0.join("deeds.jsonl")
    }

    /// What was seen.
    pub fn sightings(&self) -> PathBuf {
        self.0.join("sightings.jsonl")
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}
