//! Events in a world.

use std::fmt;
use std::time::Duration;

use semaphore_core::Prefix;
use semaphore_core::sans_io::Response;
use transport_mock::consul::{Access, Policy};

use super::Place;

/// A deed. Hosts have numbers.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Deed {
    /// The process ends, and another one starts after `down`.
    Kill { host: usize, down: Duration },
    /// The process ends as `main` returns, with a farewell. Another one starts after `down`.
    Exit { host: usize, down: Duration },
    /// The process ends as `main` returns, with a farewell, and no other one follows: a new one has
    /// started beside it.
    Retire { host: usize },
    /// The process is frozen.
    Pause { host: usize, time: Duration },
    /// All messages of the host are lost.
    Partition { host: usize, time: Duration },
    /// All messages of the host are held back.
    Stall { host: usize, time: Duration },
    /// The host's agent refuses connections.
    AgentDown { host: usize, time: Duration },
    /// A gateway before the host's agent answers in its place.
    Gateway {
        host: usize,
        time: Duration,
        answer: Gateway,
    },
    /// The host reads from an agent that lags behind.
    Lag { host: usize, time: Duration },
    /// The host's token may not read some keys.
    Restrict {
        host: usize,
        what: Hidden,
        time: Duration,
    },
    /// The host's token may not write something.
    Narrow {
        host: usize,
        what: ReadOnly,
        time: Duration,
    },
    /// The host's token is deleted, and created again after `time`.
    Revoke { host: usize, time: Duration },
    /// The leader takes this long to commit what hosts and strangers write, for `time`. Renewals are not
    /// written, but a leader that is that busy may answer them as late.
    SlowCommits {
        takes: Duration,
        renewals: bool,
        time: Duration,
    },
    /// A server serves only so many reads and writes a second, for `time`: the leader, which all hosts
    /// need, or the one on this node.
    LimitRequests {
        server: Option<usize>,
        reads: Option<f64>,
        writes: Option<f64>,
        time: Duration,
    },
    /// The servers create no session with a shorter TTL, for `time`.
    RaiseLeastTtl { ttl: Duration, time: Duration },
    /// The host's machine is suspended: the process and its timers stand still. Its clock runs on, and
    /// is ahead of the true one by `ahead` afterwards.
    Suspend {
        host: usize,
        time: Duration,
        ahead: Duration,
    },
    /// There is no leader for `time`. Then TTLs start again.
    LoseLeader { time: Duration },
    /// There is no leader for some time. The next leader lacks some of the last changes, or all of
    /// them if there are fewer. It takes some time to apply them.
    SlowLeader {
        without: Duration,
        lacks: usize,
        time: Duration,
    },
    /// A server is lost for some time, and so are all hosts that talk to it. If it is away long
    /// enough, it is removed from the catalog. Some time after its return it is registered again.
    LoseServer {
        server: usize,
        fate: Fate,
        time: Duration,
        reaped_after: Duration,
        back_after: Duration,
    },
    /// A server's node is removed from the catalog with all sessions that were created through it.
    /// It is registered again after `time`.
    Deregister { server: usize, time: Duration },
    /// The node without an agent is removed from the catalog with all its sessions. Only a host
    /// that needs it registers it again.
    DeregisterOwn,
    /// A leader on this host steps down at once, by its own handle.
    StepDown { host: usize },
    /// All indexes start again.
    ResetIndex,
    /// The state is saved.
    Snapshot,
    /// The last saved state is restored.
    Restore,
    /// An operator destroys a session.
    DestroySession { nth: usize },
    /// An operator deletes a contender key.
    DeleteKey { prefix: usize, nth: usize },
    /// An operator removes a holder from the record, or releases an election's key in its leader's
    /// name.
    RemoveHolder { prefix: usize, nth: usize },
    /// An operator deletes the record, or the election's key.
    DeleteRecord { prefix: usize },
    /// An operator overwrites the record or the election's key with foreign data, and deletes that
    /// after `time`.
    Garble { prefix: usize, time: Duration },
    /// An operator changes the record's limit.
    Resize { prefix: usize, limit: u32 },
    /// An operator evicts a holder of a semaphore, with this library.
    Evict { prefix: usize, nth: usize },
    /// An operator changes a semaphore's limit, with this library.
    SetLimit { prefix: usize, limit: u32 },
    /// An operator destroys a semaphore if nobody uses it, with this library.
    Destroy { prefix: usize },
    /// An operator changes an election's value, without acquiring the key.
    Overwrite { prefix: usize },
}

/// The answers of a gateway without a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// A page with a 404.
    NotFound,
    /// A page with a 403.
    Forbidden,
    /// A document with a 413.
    TooLarge,
    /// A redirect to a login page.
    Moved,
}

impl Gateway {
    /// Its answer.
    pub fn answer(self) -> Response {
        match self {
            Self::NotFound => Response::new(404, "<html>no backend</html>"),
            Self::Forbidden => Response::new(403, "<html>forbidden</html>"),
            Self::TooLarge => Response::new(413, r#"{"message":"too large"}"#),
            Self::Moved => Response::new(302, "").with_header("Location", "https://login.example/"),
        }
    }
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

/// What a token may not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// The record, or an election's key.
    Record,
    /// The contender keys. In an election, its key.
    Contenders,
    /// Every key.
    Keys,
    /// Sessions.
    Sessions,
    /// Sessions, which it may not read either.
    NoSessions,
}

impl ReadOnly {
    /// The policy of such a token, which may do all else that this one allows.
    pub(crate) fn policy(self, all: Policy, prefix: &Prefix, place: Place) -> Policy {
        let lock = prefix.record_key();
        let keys = all
            .clone()
            .with_key_prefix(&prefix.directory(), Access::Read);
        match self {
            Self::Contenders if !place.is_election() => keys.with_key(&lock, Access::Write),
            Self::Record | Self::Contenders => all.with_key(&lock, Access::Read),
            Self::Keys => keys,
            Self::Sessions => all.with_session_prefix("", Access::Read),
            Self::NoSessions => all.with_session_prefix("", Access::Deny),
        }
    }
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "only read the record",
            Self::Contenders => "only read contender keys",
            Self::Keys => "only read keys",
            Self::Sessions => "only read sessions",
            Self::NoSessions => "not even read sessions",
        })
    }
}

/// What happens to the hosts of a lost server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Fate {
    /// Their messages are lost: the server was killed or cut off.
    CutOff,
    /// Their messages are held back: the server is frozen.
    Stalled,
    /// They are frozen together with the server, as on one machine.
    Paused,
    /// Their messages are lost, except renewals: the server was the leader, and renews the sessions
    /// that it remembers.
    Remembers,
    /// They reach it, and it is parted from most servers. It was the leader, and believes for some time
    /// that it still is. The others elect another one.
    Outvoted {
        believes: Duration,
        elects: Duration,
    },
}

impl Deed {
    /// The name for figures.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Exit { .. } => "exit",
            Self::Retire { .. } => "old process ended beside its new one",
            Self::Pause { .. } => "pause",
            Self::Partition { .. } => "partition",
            Self::Stall { .. } => "stall",
            Self::AgentDown { .. } => "agent down",
            Self::Gateway { .. } => "gateway without a backend",
            Self::Lag { .. } => "stale reads",
            Self::Restrict { .. } => "token restricted",
            Self::Narrow {
                what: ReadOnly::Sessions | ReadOnly::NoSessions,
                ..
            } => "token without session:write",
            Self::Narrow { .. } => "token narrowed",
            Self::Revoke { .. } => "token deleted",
            Self::SlowCommits { .. } => "slow commits",
            Self::LimitRequests { .. } => "requests limited",
            Self::RaiseLeastTtl { .. } => "longer TTLs asked for",
            Self::Suspend { ahead, .. } if !ahead.is_zero() => "suspended, and the clock jumped",
            Self::Suspend { .. } => "suspended",
            Self::LoseLeader { .. } => "leader lost",
            Self::SlowLeader { .. } => "leader elected behind its log",
            Self::LoseServer { fate, .. } => match fate {
                Fate::CutOff => "server killed",
                Fate::Stalled => "server stopped",
                Fate::Paused => "server and hosts stopped",
                Fate::Remembers => "leader of yesterday renews",
                Fate::Outvoted { .. } => "servers parted",
            },
            Self::Deregister { .. } => "node deregistered",
            Self::DeregisterOwn => "separate node deregistered",
            Self::StepDown { .. } => "asked to step down",
            Self::ResetIndex => "index reset",
            Self::Snapshot => "snapshot saved",
            Self::Restore => "snapshot restored",
            Self::DestroySession { .. } => "session destroyed",
            Self::DeleteKey { .. } => "contender key deleted",
            Self::RemoveHolder { .. } => "holder removed",
            Self::DeleteRecord { .. } => "record deleted",
            Self::Garble { .. } => "record garbled",
            Self::Resize { .. } => "record resized",
            Self::Evict { .. } => "eviction",
            Self::SetLimit { .. } => "resize",
            Self::Destroy { .. } => "destruction",
            Self::Overwrite { .. } => "key overwritten",
        }
    }
}
