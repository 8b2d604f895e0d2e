//! What happened in a run, as the checks get it.

mod change;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use semaphore_core::sans_io::Instant;
use semaphore_core::{FencingToken, Lost};

pub use change::{Change, Found, KeyState, Removed, Subject};
pub(crate) use change::{holders, leader};

use crate::plan::Place;

/// Names one grant of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BeliefNo(pub u32);

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A host that uses this library.
    Ours(usize),
    /// A host that does not.
    Stranger(usize),
    /// Somebody with a hand on Consul.
    Operator,
}

/// Who believes to hold something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Its name.
    pub no: BeliefNo,
    /// Whose it is.
    pub who: Who,
    /// The prefix that it is on.
    pub prefix: usize,
    /// The sessions that stand in the record for it, or in the election's key.
    pub sessions: Vec<String>,
    /// How many slots it is. A leadership is one.
    pub permits: u32,
}

impl Belief {
    /// Whether one of its sessions is among these, at its prefix.
    pub(crate) fn is_among(&self, sessions: &BTreeSet<(usize, String)>) -> bool {
        let at = |session: &String| (self.prefix, session.clone());
        !sessions.is_empty() && self.sessions.iter().any(|it| sessions.contains(&at(it)))
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its TTL was over.
    Ttl,
    /// By request.
    Destroyed(Who),
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To read.
    Read,
    /// To tie an election's key to this session, or to change what it says.
    Attempt(String),
    /// To change something else.
    Write,
}

/// What a follower knows of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Nothing yet.
    Nothing,
    /// Nobody leads.
    Nobody,
    /// The owner of this session leads.
    Leader(String),
    /// It follows no more.
    NoMore,
}

/// What an observer was told of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// It is held from now on.
    Granted,
    /// It is lost, for a reason of this kind.
    Lost(String),
    /// It was given back.
    Released,
}

impl Noticed {
    /// A loss. Its text names what it is about, which only one of those who are told knows.
    pub fn lost(reason: &Lost) -> Self {
        let shown = format!("{reason:?}");
        let is_word = |it: char| it.is_ascii_alphanumeric();
        let end = shown.find(|it| !is_word(it)).unwrap_or(shown.len());
        Self::Lost(shown[..end].to_owned())
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Happening {
    /// A process starts, which has its part in this.
    Booted {
        host: usize,
        prefix: usize,
        place: Place,
    },
    /// A process ends, in order or not.
    Stopped { host: usize },
    /// A request is sent.
    Sent { host: usize, what: Asked },
    /// What goes wrong for this host, or for all, can be felt until then.
    Trouble { host: Option<usize>, until: Instant },
    /// Somebody holds something from now on.
    Granted { belief: Belief, token: FencingToken },
    /// Somebody is told that it is lost.
    Lost { belief: Belief, reason: Lost },
    /// Somebody holds it no longer, by their own will.
    Released { belief: BeliefNo },
    /// An acquisition, or what else a user asked for, ended with an error that is none of its caller's.
    Failed { host: usize, error: String },
    /// A session was made.
    SessionBegan { session: String, owner: Who },
    /// A session ended.
    SessionEnded { session: String, by: Ending },
    /// What says who holds was written or deleted.
    Changed(Change),
    /// What stands behind this session at a prefix was taken away: by an operator, or with the node that it stood on. A session
    /// that is shared may stand at others, too.
    Taken {
        session: String,
        prefix: usize,
        /// Whether nothing but the session has ended, and its lock delay is long enough to guard its place until
        /// nobody believes in it any more.
        is_guarded: bool,
    },
    /// What was taken away from this session stands again: it was admitted again, by a live key.
    Restored { session: String, prefix: usize },
    /// A restored snapshot brought this session back, or its contender key, or both.
    Revived { session: String },
    /// What a host of ours goes by from now on is the state of its prefix as it was then, or later.
    Informed { host: usize, of: Instant },
    /// A token may no longer read what its host's holds stand on.
    Blinded { host: usize },
    /// An answer of the watch tells a host that these are holders no longer.
    Shown { host: usize, gone: Vec<String> },
    /// Indexes go backwards: they compare only with those from now on.
    NewEpoch,
    /// An observer at a host was told this of the hold with this token.
    Noticed {
        host: usize,
        prefix: usize,
        token: FencingToken,
        what: Noticed,
    },
    /// A leader was told that the key says this now.
    ValueSet { belief: BeliefNo, value: String },
    /// A host that follows an election knows so much of its leader now.
    Follows {
        host: usize,
        prefix: usize,
        what: Followed,
    },
    /// Nothing goes wrong from now on.
    Quiet,
    /// A round begins in which every user acquires once, at most `within` from now.
    Round { users: usize, within: Duration },
    /// A user campaigns for the key of this prefix in this round.
    Campaigns { prefix: usize },
    /// A user has acquired in this round.
    GotIn { host: usize, prefix: usize },
    /// The run is over, and this is still in Consul.
    Left { what: String },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(host) => write!(f, "node-{host}"),
            Self::Stranger(number) => write!(f, "stranger-{number}"),
            Self::Operator => f.write_str("an operator"),
        }
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "hold {} of {} ({} of ",
            self.no.0, self.who, self.permits
        )?;
        f.write_str(&crate::plan::Plan::prefix(self.prefix))?;
        for session in &self.sessions {
            write!(f, " {}", short(session))?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Booted { host, .. } => write!(f, "node-{host} starts"),
            Self::Stopped { host } => write!(f, "node-{host} ends"),
            Self::Sent { host, .. } => write!(f, "node-{host} sends"),
            Self::Trouble { host, until } => match host {
                Some(host) => write!(f, "trouble for node-{host} until {until}"),
                None => write!(f, "trouble for all until {until}"),
            },
            Self::Granted { belief, token } => write!(f, "{belief} begins, token {token}"),
            Self::Lost { belief, reason } => write!(f, "{belief} is lost: {reason}"),
            Self::Released { belief } => write!(f, "hold {} is given back", belief.0),
            Self::Failed { host, error } => {
                write!(f, "what node-{host} asked for fails: {error}")
            }
            Self::SessionBegan { session, owner } => {
                write!(f, "session {} of {owner} begins", short(session))
            }
            Self::SessionEnded { session, by } => match by {
                Ending::Ttl => write!(f, "session {} ends by its TTL", short(session)),
                Ending::Destroyed(by) => {
                    write!(f, "session {} is destroyed by {by}", short(session))
                }
            },
            Self::Changed(change) => write!(f, "{change}"),
            Self::Taken {
                session,
                is_guarded: false,
                ..
            } => write!(f, "{} is taken away", short(session)),
            Self::Taken { session, .. } => {
                write!(f, "{} is taken away, and its place guarded", short(session))
            }
            Self::Restored { session, .. } => write!(f, "{} is a holder again", short(session)),
            Self::Revived { session } => write!(f, "{} is alive again", short(session)),
            Self::Informed { host, of } => write!(f, "node-{host} knows the state of {of}"),
            Self::Blinded { host } => write!(f, "node-{host} can't see its own holds"),
            Self::Shown { host, gone } => {
                write!(f, "node-{host} is shown a record without")?;
                gone.iter().try_for_each(|it| write!(f, " {}", short(it)))
            }
            Self::ValueSet { belief, value } => {
                write!(f, "hold {} has set its value to {value:?}", belief.0)
            }
            Self::Follows { host, prefix, what } => {
                let prefix = crate::plan::Plan::prefix(*prefix);
                match what {
                    Followed::Nothing => write!(f, "node-{host} follows {prefix}"),
                    Followed::Nobody => write!(f, "node-{host} sees nobody lead {prefix}"),
                    Followed::NoMore => write!(f, "node-{host} follows {prefix} no more"),
                    Followed::Leader(session) => {
                        write!(f, "node-{host} sees {} lead {prefix}", short(session))
                    }
                }
            }
            Self::Noticed { host, what, .. } => write!(f, "node-{host} tells: {what:?}"),
            Self::NewEpoch => f.write_str("indexes go backwards"),
            Self::Quiet => f.write_str("it is quiet from now on"),
            Self::Round { users, within } => write!(f, "{users} users acquire within {within:?}"),
            Self::Campaigns { prefix } => {
                write!(
                    f,
                    "a user campaigns in {}",
                    crate::plan::Plan::prefix(*prefix)
                )
            }
            Self::GotIn { host, .. } => write!(f, "a user of node-{host} got in"),
            Self::Left { what } => write!(f, "left: {what}"),
        }
    }
}

/// The first part of a session's id.
pub(crate) fn short(session: &str) -> &str {
    session.get(..8).unwrap_or(session)
}
