//! What the nemesis does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the nemesis does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// Which kind.
    pub deed: Kind,
    /// To whom.
    pub target: Target,
    /// Whether it begins or ends.
    pub phase: Phase,
    /// How much later answers come, if the target is slowed.
    #[serde(default)]
    pub later: Option<Duration>,
    /// How many requests a gateway has answered in the end.
    #[serde(default)]
    pub asked: Option<u64>,
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
    /// Answers don't come through, requests do.
    SilenceAnswers,
    /// Everything is delayed.
    Slow,
    /// A gateway answers in the agent's place.
    Gateway,
    /// Its token may write no sessions.
    Restrict,
    /// Its token is deleted, and comes back.
    Disown,
    /// The program ends in a hurry while it holds, and does not wait for its releases. Then it is
    /// started again.
    Leave,
    /// The servers elected another leader without a deed of the nemesis.
    Elect,
}

impl Kind {
    /// The name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "stopped and continued",
            Self::Restart => "restarted",
            Self::Cut => "cut off",
            Self::Silence => "silenced",
            Self::SilenceAnswers => "left without answers",
            Self::Slow => "slowed",
            Self::Gateway => "answered by a gateway",
            Self::Restrict => "denied sessions",
            Self::Disown => "left without a token",
            Self::Leave => "ended in a hurry",
            Self::Elect => "elected",
        }
    }
}

/// The target of a deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A server that leads.
    Leader(usize),
    /// A server that follows.
    Follower(usize),
    /// A client agent.
    Agent(usize),
    /// A client process or its connections.
    Client(usize),
}

/// Beginning and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It begins just after the line's moment.
    Begin,
    /// It had ended at the line's moment.
    End,
}
