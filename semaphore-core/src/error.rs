//! Every error of the core, typed. Three families: what the caller gave ([`InvalidInput`]), what
//! one request met ([`RequestError`]), and how an operation on a semaphore ended ([`Error`]).

use core::time::Duration;
use std::sync::Arc;

use crate::id::SessionId;
use crate::input::InvalidInput;
use crate::transport::TransportError;

/// Why one request did not do what it was for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No whole answer came. Retried while there is time, unless the connection itself is
    /// misconfigured.
    #[error("the request to Consul got no answer")]
    Transport(#[source] TransportError),
    /// The agent can't serve the request now: no leader, an election, a rate limit, a proxy
    /// without its backend. Retried while there is time.
    #[error("Consul can't serve the request now: {status} {text}")]
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's text.
        text: String,
    },
    /// The answer is not what Consul sends here, as when a proxy answers in its place. Retried
    /// while there is time.
    #[error("the answer is not Consul's: {what}")]
    Garbled {
        /// What was expected.
        what: &'static str,
        /// What the parser says, where it says something.
        #[source]
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    /// 403: the token lacks a permission, or is unknown. Mend the token or its policy.
    #[error("Consul denies the request: {text}")]
    Denied {
        /// Consul's text.
        text: String,
    },
    /// The session does not exist (any more).
    #[error("the session is gone: {text}")]
    InvalidSession {
        /// Consul's text.
        text: String,
    },
    /// Consul refuses the request as it is: trying again would not help.
    #[error("Consul rejects the request: {status} {text}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer's text.
        text: String,
    },
    /// The agent takes no such key. Releases differ in which ones they take: use letters, digits, `/`, `-`, `_` and `.`
    /// where several are in use.
    #[error("the agent takes no such key: {text}")]
    InvalidKey {
        /// Consul's text, which says which rule.
        text: String,
    },
    /// What was served before is refused: a token while it is rotated, a gateway in Consul's place. Retried for as
    /// long as a lease lasts, and then told for what it is.
    #[error("what was served before is refused")]
    RefusedForNow(#[source] Box<RequestError>),
    /// A redirect. None is followed: it would carry the token to another address.
    #[error("the answer is a redirect ({status}) to {location:?}; check the agent's address")]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// Where to.
        location: String,
    },
}

impl RequestError {
    /// Whether trying again is pointless (invariant L4's second class).
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Transport(error) => error.kind().is_permanent(),
            Self::Unavailable { .. } | Self::Garbled { .. } | Self::RefusedForNow(_) => false,
            Self::Denied { .. }
            | Self::InvalidSession { .. }
            | Self::InvalidKey { .. }
            | Self::Rejected { .. }
            | Self::Redirected { .. } => true,
        }
    }

    /// Whether it was refused for the number of requests, as an agent with `limits.request_limits` does (from 1.15), or one
    /// with too many connections.
    pub(crate) fn is_rate_limit(&self) -> bool {
        match self {
            Self::Unavailable { status: 429, .. } => true,
            Self::Unavailable { status, text } => {
                *status == 503 && text.to_ascii_lowercase().contains(RATE_LIMIT)
            }
            _ => false,
        }
    }

    /// Whether something else has answered in Consul's place: a page, a document, a redirect. Consul refuses in a line of
    /// text. It is no verdict on what was asked, and whoever leaves goes on until there is one.
    pub(crate) fn is_anothers(&self) -> bool {
        let is_document = |text: &str| text.starts_with(['<', '{']);
        match self {
            Self::Redirected { .. } => true,
            Self::Denied { text } | Self::Rejected { text, .. } => is_document(text),
            Self::RefusedForNow(error) => error.is_anothers(),
            _ => false,
        }
    }

    /// The refusal itself, for whoever does not wait until it has passed.
    pub(crate) fn at_face_value(&self) -> &Self {
        match self {
            Self::RefusedForNow(error) => error,
            error => error,
        }
    }

    /// Whether a write that ended so certainly had no effect. Otherwise its outcome is unknown.
    pub fn was_not_applied(&self) -> bool {
        match self {
            Self::Transport(error) => error.kind().was_not_applied(),
            Self::Unavailable { .. } => self.is_rate_limit(),
            Self::RefusedForNow(error) => error.was_not_applied(),
            Self::Garbled { .. } => false,
            Self::Denied { .. }
            | Self::InvalidSession { .. }
            | Self::InvalidKey { .. }
            | Self::Rejected { .. }
            | Self::Redirected { .. } => true,
        }
    }
}

/// How a leader says that it has had enough writes. It has not looked at the request.
const RATE_LIMIT: &str = "rate limit exceeded";

/// Why a key is left alone: `<prefix>/.lock` of a semaphore, or the key of an election.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Its flags are another tool's, a mutex's for example.
    #[error("its flags {flags:#x} are not a semaphore's")]
    Flags {
        /// The flags found.
        flags: u64,
    },
    /// Its value is not a record of limit and holders.
    #[error("its value is not a semaphore's record: {reason}")]
    Record {
        /// What is wrong with it.
        reason: String,
    },
    /// The flags of an election's key are another tool's, or none.
    #[error("its flags {flags:#x} are not an election's")]
    ElectionFlags {
        /// The flags found.
        flags: u64,
    },
    /// Somebody has written the key of an election without `acquire` while a session has it. Nobody leads by it until that session
    /// has given it back or has ended.
    #[error("it was overwritten while somebody led")]
    Overwritten,
    /// The key of an election is a semaphore's record or contender key.
    #[error("it is a semaphore's")]
    Semaphore,
}

/// How an operation on a semaphore or in an election failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that the caller gave can't be used; nothing was sent.
    #[error("invalid input")]
    InvalidInput(#[source] InvalidInput),
    /// The semaphore under this prefix has another limit. Use its limit, let the builder adopt
    /// it, or resize the semaphore.
    #[error("the limit is {ours} here, but the semaphore's record says {theirs}")]
    LimitConflict {
        /// The limit given here.
        ours: u32,
        /// The limit in the record.
        theirs: u32,
    },
    /// The key `<prefix>/.lock` belongs to something that is no semaphore of a known dialect. It
    /// was not touched. Use another prefix, or remove that key.
    #[error("the key {key:?} is not a semaphore's")]
    Conflict {
        /// The key.
        key: String,
        /// What was found there.
        #[source]
        conflict: Conflict,
    },
    /// The key is not an election's: a semaphore's, or it has the flags of something else, or a value or
    /// session that was stored without `acquire`. It was not touched. Use another key, or remove what is
    /// there.
    #[error("the key {key:?} is not an election's")]
    NotAnElection {
        /// The key.
        key: String,
        /// What was found there.
        #[source]
        conflict: Conflict,
    },
    /// A request failed for good, or failed when there was no time to try it again.
    #[error("a request to Consul failed")]
    Request(#[source] RequestError),
    /// The list of the prefix leaves keys out, so holders can't be told from the dead (S3). The
    /// token needs `key_prefix` read on the whole prefix.
    #[error("the list of {prefix:?} is incomplete: the token lacks read permission on it")]
    IncompleteView {
        /// The prefix.
        prefix: String,
    },
    /// The time that the caller gave ran out; nothing is held. Told apart from a cancellation,
    /// which returns nothing at all.
    #[error("nothing was granted within {waited:?}")]
    Timeout {
        /// How long it waited.
        waited: Duration,
        /// The last failure on the way, where there was one since the last success, or what has not succeeded yet.
        #[source]
        last_failure: Option<RequestError>,
    },
    /// The session that the caller made is gone.
    #[error("the session {session} is gone")]
    SessionGone {
        /// The session.
        session: SessionId,
    },
    /// The session that the caller made already contends under this prefix. A session carries
    /// one slot: make another one, or delete the contender key if nothing uses it.
    #[error("the session {session} already contends under this prefix")]
    SessionInUse {
        /// The session.
        session: SessionId,
    },
    /// The semaphore is still held or waited for.
    #[error("the semaphore is in use: {holders} holders, {waiters} waiters")]
    InUse {
        /// Live holders.
        holders: usize,
        /// Live waiters.
        waiters: usize,
    },
    /// There is no semaphore under this prefix.
    #[error("there is no semaphore under this prefix")]
    NotFound,
    /// The permit or leadership had been lost before it was given back. What it protected may have
    /// overlapped.
    #[error("it was lost before it was given back")]
    Lost(#[source] Lost),
    /// The runtime could not run the task that speaks to Consul, as where the process may have no more threads.
    /// Nothing was sent.
    #[error("the runtime could not start a task, or a thread for it")]
    NoTask(#[source] Arc<std::io::Error>),
    /// The semaphore or election was closed, by its owner or by the end of its runtime.
    #[error("the handle is closed")]
    Closed,
}

impl From<InvalidInput> for Error {
    fn from(error: InvalidInput) -> Self {
        Self::InvalidInput(error)
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Why a try was refused. Nothing is wrong: there is nothing to take at the moment, and a try waits for nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Others of the same handle and its clones come first: of a semaphore they wait, in an election one waits or leads.
    /// Consul was not asked.
    #[error("others of the same handle come first")]
    OthersHere,
    /// The limit is reached: fewer slots are free than were asked for.
    #[error("{free} of {limit} slots are free")]
    LimitReached {
        /// The slots that are free.
        free: u32,
        /// All slots.
        limit: u32,
    },
    /// Slots are free, but for those who wait already.
    #[error("{waiters} who wait come first, and {free} slots are free")]
    OthersWait {
        /// How many wait.
        waiters: u32,
        /// The slots that are free.
        free: u32,
    },
    /// The slots that are missing are those of holders whose contender key has gone, and who may believe in them still. They
    /// are free when the lock delay of each is over: a minute at most.
    #[error("{withheld} slots are withheld until the lock delay of their holders is over")]
    LockDelay {
        /// The slots of such holders.
        withheld: u32,
    },
    /// The session that the caller made holds a slot here already. A session carries one slot.
    #[error("the caller's session holds a slot already")]
    SessionInUse,
    /// Somebody else leads.
    #[error("session {by} leads")]
    Led {
        /// The session of the leader.
        by: SessionId,
    },
    /// Consul did not give the election's key away: the lock delay of a former leader is on, or another one was faster.
    #[error("the key can't be acquired at the moment")]
    KeyUnavailable,
}

/// Why a permit or a leadership stopped being held before it was given back. Whoever learns it must stop using
/// the resource at once.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The session is gone: destroyed by an operator, expired, its node deregistered, a health
    /// check failed. A contender key that vanished counts as this too, since that is what an
    /// invalidation leaves behind.
    #[error("the session {session} is gone")]
    SessionGone {
        /// The session.
        session: SessionId,
    },
    /// Somebody took the session out of the record's holders, or removed or replaced the record.
    #[error("the session {session} was removed from the holders")]
    RemovedFromHolders {
        /// The session.
        session: SessionId,
    },
    /// The contender key is there, but no longer tied to the session.
    #[error("the contender key of session {session} was taken from it")]
    ContenderKeyTaken {
        /// The session.
        session: SessionId,
    },
    /// No renewal succeeded in time, so Consul may give the slot away (S2).
    #[error("the lease of session {session} ran out")]
    LeaseExpired {
        /// The session.
        session: SessionId,
        /// Why the last renewal failed, where one did.
        #[source]
        last_failure: Option<RequestError>,
    },
    /// The key of the election is tied to no session any more: the session has ended (destroyed,
    /// expired, its node deregistered), or somebody released the key in its name.
    #[error("the key was released from session {session}")]
    KeyReleased {
        /// The session.
        session: SessionId,
    },
    /// The key of the election is tied to another session: somebody else leads.
    #[error("the key of session {session} was taken by session {by}")]
    KeyTaken {
        /// The session.
        session: SessionId,
        /// Whose it is now.
        by: SessionId,
    },
    /// The key of the election was deleted, and maybe made anew: terms are counted from the beginning.
    #[error("the key of session {session} was deleted")]
    KeyDeleted {
        /// The session.
        session: SessionId,
    },
    /// Somebody wrote the key of the election without `acquire`. It is still tied to the session, but
    /// its value is not the leader's, and its lock index says no more whose term it is: the
    /// sequencer is void.
    #[error("the key of session {session} was overwritten")]
    KeyOverwritten {
        /// The session.
        session: SessionId,
    },
    /// The agent takes no such key any more, as after an upgrade, so that nobody would notice an eviction.
    #[error("the key of session {session} can't be read any more")]
    Unreadable {
        /// The session.
        session: SessionId,
        /// What the agent said.
        #[source]
        refusal: RequestError,
    },
    /// It was given back here, by whoever leads or by the handle of the election.
    #[error("it was stepped down from")]
    SteppedDown,
    /// The runtime dropped the driver, so nothing renews the session any more.
    #[error("the runtime has ended")]
    RuntimeEnded,
}
