//! What clients believe and see.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// What a client believes. `acquire` numbers its acquisitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Belief {
    /// The client is about to ask.
    Wanted {
        /// The number of the acquisition.
        acquire: u64,
        /// The place that it asks for.
        prefix: String,
        /// How many slots it asks for at once.
        permits: u32,
        /// How it asks.
        way: Way,
    },
    /// The acquisition was granted.
    Granted {
        /// Which acquisition.
        acquire: u64,
        /// The fencing token.
        token: u64,
        /// The sessions that hold, one for each slot.
        sessions: Vec<String>,
        /// The end of the lease, if it was held when the client asked just after the line's moment.
        until: Option<Moment>,
    },
    /// Just after the line's moment, before acting, the client asked and still held.
    Held {
        /// Which acquisition.
        acquire: u64,
        /// The end of the lease.
        until: Moment,
    },
    /// Just after the line's moment, the client asked and did not hold any more.
    NotHeld {
        /// Which acquisition.
        acquire: u64,
    },
    /// The client learned of a loss.
    Lost {
        /// Which acquisition.
        acquire: u64,
        /// Why.
        reason: Reason,
        /// The reason in words.
        words: String,
    },
    /// The client is about to release.
    Ending {
        /// Which acquisition.
        acquire: u64,
        /// Whether it was held when the client asked just after the line's moment.
        held: bool,
    },
    /// The client has released.
    Ended {
        /// Which acquisition.
        acquire: u64,
        /// The error of the release, if any.
        error: Option<String>,
    },
    /// The acquisition was not granted.
    NotGranted {
        /// Which acquisition.
        acquire: u64,
        /// The reason.
        outcome: Outcome,
        /// The reason in words.
        words: Option<String>,
    },
    /// The leader wanted to change the value of the election's key.
    Said {
        /// Which acquisition.
        acquire: u64,
        /// The new value.
        value: String,
        /// The result of the change.
        outcome: Change,
        /// The reason in words.
        words: Option<String>,
    },
    /// A follower of an election learned this.
    Saw {
        /// The election.
        prefix: String,
        /// What it saw.
        sight: Sight,
    },
    /// The process is about to end in a hurry. It has dropped everything and waited for nothing.
    Left,
    /// The process is about to end in order, and has left nothing in Consul.
    Stopped,
}

/// The result of a change of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The key shows it.
    Done,
    /// The leadership was lost.
    Lost,
    /// It failed with an error.
    Failed,
}

impl Change {
    /// The name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "shown",
            Self::Lost => "lost with the leadership",
            Self::Failed => "failed",
        }
    }
}

/// What a follower can see of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sight", rename_all = "snake_case")]
pub enum Sight {
    /// Somebody leads.
    Led {
        /// Its session.
        session: String,
        /// The number of the key's term. A session may lead in several terms.
        #[serde(default)]
        term: u64,
        /// The leader's value.
        value: String,
    },
    /// Nobody leads.
    Leaderless {
        /// The value of the key, if it exists.
        value: Option<String>,
    },
    /// The follower sees nothing for now.
    Interrupted,
    /// The follower sees again.
    Resumed,
    /// The follower will see nothing any more.
    Failed {
        /// The reason in words.
        words: String,
    },
}

/// How an acquisition is requested.
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
    /// Nothing was free, and the caller would not wait.
    Refused,
    /// The time ended.
    TimedOut,
    /// The caller gave it up.
    Cancelled,
    /// It failed with an error.
    Failed,
}

impl Outcome {
    /// The name in a report.
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
    /// Consul does not know the session.
    SessionGone,
    /// The record no longer names the session.
    RemovedFromHolders,
    /// Another session has the contender key.
    ContenderKeyTaken,
    /// Nobody holds the election's key.
    KeyReleased,
    /// Another session has the election's key.
    KeyTaken,
    /// The election's key was deleted.
    KeyDeleted,
    /// Somebody else wrote the election's key.
    KeyOverwritten,
    /// No renewal came through in time.
    LeaseExpired,
    /// The driver has ended.
    RuntimeEnded,
    /// A reason that this program does not know.
    Unknown,
}

impl Reason {
    /// The name in a report.
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
