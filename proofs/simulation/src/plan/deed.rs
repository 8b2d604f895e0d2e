//! What happens to a world.

use std::time::Duration;

use semaphore_core::sans_io::Response;

/// What is done to the world. Hosts are named by their numbers.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named by what they are")]
pub enum Deed {
    /// The process ends; another one starts after so long.
    Kill { host: usize, down: Duration },
    /// The process ends as `main` returns, with a farewell; another one starts after so long.
    Exit { host: usize, down: Duration },
    /// The process stands still.
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
    /// There is no leader for so long, then TTLs start again.
    LoseLeader { time: Duration },
    /// There is no leader for so long, then one that lacks so many of the last changes, or all of them
    /// if there are fewer, and takes so long to apply them.
    SlowLeader {
        without: Duration,
        lacks: usize,
        time: Duration,
    },
    /// A server is lost for so long, and so are all hosts that talk to it. If it is out long enough, it is
    /// taken out of the catalog after some time, and registered again some time after it is back.
    LoseServer {
        server: usize,
        fate: Fate,
        time: Duration,
        reaped_after: Duration,
        back_after: Duration,
    },
    /// The node of a server is taken out of the catalog, with all sessions that were made through it, until it
    /// is registered again after so long.
    Deregister { server: usize, time: Duration },
    /// The node that no agent stands for is taken out of the catalog, with all sessions on it. Nobody but who needs
    /// it registers it again.
    DeregisterOwn,
    /// All indexes are counted again.
    ResetIndex,
    /// The state is saved.
    Snapshot,
    /// The state that was saved last is restored.
    Restore,
    /// An operator destroys a session.
    DestroySession { nth: usize },
    /// An operator deletes a contender key.
    DeleteKey { prefix: usize, nth: usize },
    /// An operator takes a holder out of the record, or releases an election's key in its leader's name.
    RemoveHolder { prefix: usize, nth: usize },
    /// An operator deletes the record, or the election's key.
    DeleteRecord { prefix: usize },
    /// An operator writes something else over the record or the election's key, and deletes that
    /// after so long.
    Garble { prefix: usize, time: Duration },
    /// An operator changes the record's limit.
    Resize { prefix: usize, limit: u32 },
    /// An operator changes what an election's key says, without acquiring it.
    Overwrite { prefix: usize },
}

/// What a gateway without a backend answers to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// A page with a 404.
    NotFound,
    /// A page with a 403.
    Forbidden,
    /// A document with a 413.
    TooLarge,
    /// A redirect to where one is to log in.
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

/// What becomes of the hosts of a server that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Their messages are lost: it was killed or cut off.
    CutOff,
    /// Their messages are held back: it stands still.
    Stalled,
    /// They stand still like it, as on one machine.
    Paused,
    /// Their messages are lost, but for renewals: it led, and goes on renewing what it remembers.
    Remembers,
}

impl Deed {
    /// Its name, for figures.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Exit { .. } => "exit",
            Self::Pause { .. } => "pause",
            Self::Partition { .. } => "partition",
            Self::Stall { .. } => "stall",
            Self::AgentDown { .. } => "agent down",
            Self::Gateway { .. } => "gateway without a backend",
            Self::Lag { .. } => "stale reads",
            Self::Restrict { .. } => "token restricted",
            Self::LoseLeader { .. } => "leader lost",
            Self::SlowLeader { .. } => "leader elected behind its log",
            Self::LoseServer { fate, .. } => match fate {
                Fate::CutOff => "server killed",
                Fate::Stalled => "server stopped",
                Fate::Paused => "server and hosts stopped",
                Fate::Remembers => "leader of yesterday renews",
            },
            Self::Deregister { .. } => "node deregistered",
            Self::DeregisterOwn => "separate node deregistered",
            Self::ResetIndex => "index reset",
            Self::Snapshot => "snapshot saved",
            Self::Restore => "snapshot restored",
            Self::DestroySession { .. } => "session destroyed",
            Self::DeleteKey { .. } => "contender key deleted",
            Self::RemoveHolder { .. } => "holder removed",
            Self::DeleteRecord { .. } => "record deleted",
            Self::Garble { .. } => "record garbled",
            Self::Resize { .. } => "record resized",
            Self::Overwrite { .. } => "key overwritten",
        }
    }
}
