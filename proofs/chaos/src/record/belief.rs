//! What clients believe and see.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

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
    /// The process is about to end in a hurry: it has dropped all that it had, and waited for nothing.
    Left,
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
        /// Which of the terms of the key it is: a session may lead in several.
        #[serde(default)]
        term: u64,
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
