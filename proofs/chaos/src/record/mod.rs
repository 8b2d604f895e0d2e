//! What each party of a run records.

mod belief;
mod deed;
mod folder;
mod run;
mod standing;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

pub use belief::{Belief, Change, Outcome, Reason, Sight, Way};
pub use deed::{Deed, Kind, Phase, Target};
pub use folder::Folder;
pub use run::{Backend, Client, Place, Release, Role, Run, What};
pub use standing::Standing;

/// A line of a `consul lock`'s child. `name` is also part of its session's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Hold {
    /// The child was started, so the slot is held.
    Began {
        /// Which one.
        name: String,
        /// The place of the slot.
        prefix: String,
    },
    /// The child still runs.
    Goes {
        /// Which one.
        name: String,
    },
    /// The child is about to end.
    Ended {
        /// Which one.
        name: String,
    },
}

/// A read of all sessions that the leader confirmed. It began at the line's moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// The server that was asked.
    pub server: usize,
    /// When the answer arrived.
    pub end: Moment,
    /// The names of the `consul lock` holders whose sessions exist. `None` if there was no answer.
    pub locks: Option<Vec<String>>,
    /// The ids of our sessions that exist. `None` if there was no answer.
    #[serde(default)]
    pub ours: Option<Vec<String>>,
    /// The nodes in the catalog, read just afterwards. `None` if there was no answer.
    #[serde(default)]
    pub nodes: Option<Vec<String>>,
    /// The names of the holders of each place, read just afterwards.
    #[serde(default)]
    pub holders: Vec<Vec<String>>,
}

/// The state when everything was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When things stopped going wrong.
    pub quiet_from: Moment,
    /// Clients that had to be killed, since they did not end when they were told to.
    pub hung: Vec<String>,
    /// `consul lock` processes that had to be killed.
    pub hung_locks: u64,
    /// Writes whose clients no longer waited for the answer.
    #[serde(default)]
    pub given_up: u64,
    /// Those of them that were applied a second later or more.
    #[serde(default)]
    pub applied_late: u64,
    /// The longest delay of such a write.
    #[serde(default)]
    pub latest: Duration,
    /// Names of our sessions that existed after all clients had ended.
    pub sessions: Vec<String>,
    /// Those of them that still existed when everything had time to expire once more.
    #[serde(default)]
    pub sessions_later: Vec<String>,
    /// Our contender keys, and election keys held by our sessions, after all clients had ended.
    pub keys: Vec<String>,
    /// What was left after one client had acquired and released everything.
    pub at_last: Vec<String>,
    /// The state of each election then.
    pub truths: Vec<Truth>,
    /// Why that client failed.
    pub last_failure: Option<String>,
}

/// What Consul's leader says about an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Which one.
    pub prefix: String,
    /// The election's state.
    pub sight: Sight,
}
