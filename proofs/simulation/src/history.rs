//! The events of a run, for the checks.

mod change;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use semaphore_core::sans_io::Instant;
use semaphore_core::{Error, FencingToken, Lost};

pub use change::{Change, Foreign, Found, KeyState, Removed, ShownTerm, Subject, Waiting};
pub(crate) use change::{holders, leader};

use crate::plan::{HostBounds, Place};

/// The name of one grant of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BeliefNo(pub u32);

/// An actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A host that uses this library.
    Ours(usize),
    /// A host that does not.
    Stranger(usize),
    /// Somebody who changes Consul directly.
    Operator,
}

/// What an error that a user was told says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// What stands at the key is no record, or no election's.
    Foreign,
    /// The limit is another, or lower than what was asked for.
    Limit,
    /// A request was refused for good, or something may not be seen.
    Refused,
    /// Something that nothing excuses.
    Other,
}

impl Why {
    /// What this error says.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Conflict { .. } | Error::NotAnElection { .. } => Self::Foreign,
            Error::LimitConflict { .. } | Error::InvalidInput { .. } => Self::Limit,
            Error::IncompleteView { .. } | Error::Request(_) => Self::Refused,
            _ => Self::Other,
        }
    }
}

/// A belief to hold something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The belief's name.
    pub no: BeliefNo,
    /// The holder.
    pub who: Who,
    /// The number of its prefix.
    pub prefix: usize,
    /// Its sessions in the record, or in the election's key.
    pub sessions: Vec<String>,
    /// The number of slots. A leadership has one.
    pub permits: u32,
}

impl Belief {
    /// Whether these contain one of its sessions at its prefix.
    pub(crate) fn is_among(&self, sessions: &BTreeSet<(usize, String)>) -> bool {
        let at = |session: &String| (self.prefix, session.clone());
        !sessions.is_empty() && self.sessions.iter().any(|it| sessions.contains(&at(it)))
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its TTL ended.
    Ttl,
    /// A request destroyed it.
    Destroyed(Who),
}

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It reads.
    Read,
    /// It acquires an election's key for this session, or changes its value.
    Attempt(String),
    /// It changes something else.
    Write,
}

/// What a follower knows about a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It begins to follow.
    Begins {
        /// Whether it may poll. Otherwise its client checks the key once a second.
        polls: bool,
    },
    /// Nothing yet.
    Nothing,
    /// Nobody leads.
    Nobody,
    /// The owner of this session leads.
    Leader(String),
    /// It has stopped following.
    NoMore,
}

/// A notice about a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// It begins.
    Granted,
    /// It is lost, for a reason of this kind.
    Lost(String),
    /// It was given back.
    Released,
}

impl Noticed {
    /// A loss. The text names its subject, which only one of the recipients knows.
    pub fn lost(reason: &Lost) -> Self {
        let shown = format!("{reason:?}");
        let is_word = |it: char| it.is_ascii_alphanumeric();
        let end = shown.find(|it| !is_word(it)).unwrap_or(shown.len());
        Self::Lost(shown[..end].to_owned())
    }
}

/// An event.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Happening {
    /// A process with a part in the semaphore or election starts. It may have several parts.
    Booted {
        host: usize,
        prefix: usize,
        place: Place,
        bounds: HostBounds,
    },
    /// The `main` of a process returns, so that it ends with a farewell.
    Returns { host: usize },
    /// A process ends, in order or not.
    Stopped { host: usize },
    /// A request is sent for this prefix. Those about sessions count for the host's first one.
    Sent {
        host: usize,
        prefix: usize,
        what: Asked,
    },
    /// A request of this host met a fault, and may be without an answer until then. What costs a hold
    /// time is told as trouble besides.
    Hindered { host: usize, until: Instant },
    /// This host, or all, may feel a fault until then.
    Trouble { host: Option<usize>, until: Instant },
    /// This host's clock has jumped ahead, so whatever it relied on is that much older.
    Jumped { host: usize, by: Duration },
    /// A belief begins.
    Granted { belief: Belief, token: FencingToken },
    /// A holder learns of its loss.
    Lost { belief: Belief, reason: Lost },
    /// A leader on this host is asked to step down, by its own handle.
    StepsDown { host: usize, prefix: usize },
    /// A holder releases.
    Released { belief: BeliefNo },
    /// A host that keeps lost slots was told of a loss, and has not given its permit back. Consul guards
    /// the place for this long after the loss.
    Keeps {
        host: usize,
        prefix: usize,
        sessions: Vec<String>,
        lock_delay: Duration,
    },
    /// It gives that permit back, or drops it.
    KeepsNoMore {
        host: usize,
        prefix: usize,
        sessions: Vec<String>,
    },
    /// An acquisition or another request of a user failed with an error that is not its caller's
    /// fault.
    Failed {
        host: usize,
        prefix: usize,
        why: Why,
        error: String,
    },
    /// A user of ours waits for this many slots, until it gets them or gives up.
    Waits {
        host: usize,
        prefix: usize,
        permits: u32,
    },
    /// A user of ours no longer waits, and got nothing: it was refused, gave up, or ran out of time.
    GaveUp {
        host: usize,
        prefix: usize,
        permits: u32,
    },
    /// The answer that created this session has reached its host.
    Known { host: usize, session: String },
    /// A session was created.
    SessionBegan { session: String, owner: Who },
    /// A session ended.
    SessionEnded { session: String, by: Ending },
    /// The record, or the election's key, was written or deleted.
    Changed(Change),
    /// The contender keys of these holders were written: their slots may have been handed over.
    Touched {
        prefix: usize,
        by: Who,
        sessions: Vec<String>,
    },
    /// An operator or the end of a node took away what this session depends on at a prefix. A
    /// shared session may be used at other prefixes, too.
    Taken {
        session: String,
        prefix: usize,
        /// Whether only the session has ended, and its lock delay guards its place until nobody
        /// believes in it any more.
        is_guarded: bool,
    },
    /// An operator has asked this holder to leave. It still holds.
    Evicted { session: String, prefix: usize },
    /// The session is complete again: a live key admitted it again.
    Restored { session: String, prefix: usize },
    /// A restored snapshot brought this session back, or its contender key, or both.
    Revived { session: String },
    /// From now on, one of our hosts relies on a prefix's state at that moment or later.
    Informed {
        host: usize,
        prefix: usize,
        of: Instant,
    },
    /// A token may no longer read what its host's holds depend on.
    Blinded { host: usize },
    /// A token may no longer write something.
    Narrowed { host: usize },
    /// From now on, requests of this host may be refused for good: by its token, or by a gateway.
    Denied { host: usize },
    /// They are served again. Each of these ends one of the three above.
    Served { host: usize },
    /// A host that was refused something, or whose indexes started again, relies on an answer that
    /// shows everything of this prefix, and no other is under way.
    Whole { host: usize, prefix: usize },
    /// An answer of the watch shows a host that these are no longer holders of this prefix.
    Shown {
        host: usize,
        prefix: usize,
        gone: Vec<String>,
    },
    /// Indexes go backwards. They can only be compared with later ones.
    NewEpoch,
    /// An observer of a host received a notice about the hold with this token.
    Noticed {
        host: usize,
        prefix: usize,
        token: FencingToken,
        what: Noticed,
    },
    /// A leader was told that its key has this value now.
    ValueSet { belief: BeliefNo, value: String },
    /// A host that follows an election now knows this about its leader.
    Follows {
        host: usize,
        prefix: usize,
        what: Followed,
    },
    /// From now on, nothing goes wrong.
    Quiet,
    /// A round begins. Every user must acquire once within `within`.
    Round { users: usize, within: Duration },
    /// A user campaigns for this prefix's key in this round.
    Campaigns { prefix: usize },
    /// A user has acquired in this round.
    GotIn { host: usize, prefix: usize },
    /// The run has ended, and this is still in Consul.
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
            Self::Returns { host } => write!(f, "the main of node-{host} returns"),
            Self::Stopped { host } => write!(f, "node-{host} ends"),
            Self::Sent { host, .. } => write!(f, "node-{host} sends"),
            Self::Trouble { host, until } => match host {
                Some(host) => write!(f, "trouble for node-{host} until {until}"),
                None => write!(f, "trouble for all until {until}"),
            },
            Self::Jumped { host, by } => write!(f, "the clock of node-{host} jumps by {by:?}"),
            Self::Granted { belief, token } => write!(f, "{belief} begins, token {token}"),
            Self::Lost { belief, reason } => write!(f, "{belief} is lost: {reason}"),
            Self::Released { belief } => write!(f, "hold {} is given back", belief.0),
            Self::StepsDown { host, .. } => write!(f, "node-{host} is to step down"),
            Self::Keeps { host, .. } => write!(f, "node-{host} keeps what it has lost"),
            Self::KeepsNoMore { host, .. } => write!(f, "node-{host} gives what it has kept back"),
            Self::Failed { host, error, .. } => {
                write!(f, "what node-{host} asked for fails: {error}")
            }
            Self::Hindered { host, until } => write!(f, "node-{host} is hindered until {until}"),
            Self::Waits { host, permits, .. } => {
                write!(f, "a user of node-{host} waits for {permits}")
            }
            Self::GaveUp { host, .. } => write!(f, "a user of node-{host} waits no more"),
            Self::Known { host, session } => {
                write!(f, "node-{host} knows session {}", short(session))
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
            Self::Evicted { session, .. } => write!(f, "{} is asked to go", short(session)),
            Self::Restored { session, .. } => write!(f, "{} is a holder again", short(session)),
            Self::Revived { session } => write!(f, "{} is alive again", short(session)),
            Self::Informed { host, of, .. } => write!(f, "node-{host} knows the state of {of}"),
            Self::Touched { sessions, .. } => write!(f, "touched: {}", sessions.join(", ")),
            Self::Blinded { host } => write!(f, "node-{host} can't see its own holds"),
            Self::Narrowed { host } => write!(f, "node-{host} may not write everything"),
            Self::Denied { host } => write!(f, "node-{host} may be refused"),
            Self::Whole { host, prefix } => {
                let prefix = crate::plan::Plan::prefix(*prefix);
                write!(f, "node-{host} knows everything of {prefix} again")
            }
            Self::Served { host } => write!(f, "node-{host} is served again"),
            Self::Shown { host, gone, .. } => {
                write!(f, "node-{host} is shown a record without")?;
                gone.iter().try_for_each(|it| write!(f, " {}", short(it)))
            }
            Self::ValueSet { belief, value } => {
                write!(f, "hold {} has set its value to {value:?}", belief.0)
            }
            Self::Follows { host, prefix, what } => {
                let prefix = crate::plan::Plan::prefix(*prefix);
                match what {
                    Followed::Begins { .. } | Followed::Nothing => {
                        write!(f, "node-{host} follows {prefix}")
                    }
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
