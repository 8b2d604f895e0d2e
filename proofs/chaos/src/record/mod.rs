//! What the parties of a run record.

mod belief;
mod deed;
mod folder;
mod run;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

pub use belief::{Belief, Change, Outcome, Reason, Sight, Way};
pub use deed::{Deed, Kind, Phase, Target};
pub use folder::Folder;
pub use run::{Backend, Client, Place, Role, Run, What};

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

/// A read of all sessions that the leader confirmed, begun at the line's moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// The server that was asked.
    pub server: usize,
    /// When the answer was there.
    pub end: Moment,
    /// The names of the `consul lock` holders whose sessions exist; none when there was no answer.
    pub locks: Option<Vec<String>>,
    /// The ids of our sessions that exist; none when there was no answer.
    #[serde(default)]
    pub ours: Option<Vec<String>>,
    /// The nodes of the catalog, read just afterwards; none when there was no answer.
    #[serde(default)]
    pub nodes: Option<Vec<String>>,
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
    /// Writes whose clients did not wait for the answer any more.
    #[serde(default)]
    pub given_up: u64,
    /// Those of them that were applied a second or more after that.
    #[serde(default)]
    pub applied_late: u64,
    /// How long after that the last one was applied.
    #[serde(default)]
    pub latest: Duration,
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
