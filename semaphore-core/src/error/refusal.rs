//! Why a try was refused, and why a key was left alone.

use crate::id::SessionId;

/// Why a key was left alone: a semaphore's `<prefix>/.lock`, or an election's key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// It has the flags of another tool, for example a mutex.
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
    /// The flags of the election's key are another tool's, or missing.
    #[error("its flags {flags:#x} are not an election's")]
    ElectionFlags {
        /// The flags found.
        flags: u64,
    },
    /// Somebody wrote the election's key without `acquire` while a session owned it. Nobody leads
    /// until that session has released the key or has ended.
    #[error("it was overwritten while somebody led")]
    Overwritten,
    /// The election's key is a semaphore's record or contender key.
    #[error("it is a semaphore's")]
    Semaphore,
}

/// Why a try was refused. This is not an error: nothing is free now, and a try does not wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Others of the same handle and its clones come first. For a semaphore they wait; for an
    /// election one of them waits or leads. Consul was not asked.
    #[error("others of the same handle come first")]
    OthersHere,
    /// The limit is reached: fewer slots are free than requested.
    #[error("{free} of {limit} slots are free")]
    LimitReached {
        /// The slots that are free.
        free: u32,
        /// The limit.
        limit: u32,
    },
    /// Slots are free, but earlier waiters get them.
    #[error("{waiters} waiters come first, and {free} slots are free")]
    OthersWait {
        /// The number of waiters.
        waiters: u32,
        /// The slots that are free.
        free: u32,
    },
    /// The missing slots belong to holders whose contender key is gone. Such a holder may still
    /// believe that it holds. The slots are free when the lock delay of each is over, after at most
    /// a minute.
    #[error("{withheld} slots are withheld until the lock delay of their holders is over")]
    LockDelay {
        /// The number of such slots.
        withheld: u32,
    },
    /// Somebody else leads.
    #[error("session {by} leads")]
    Led {
        /// The session of the leader.
        by: SessionId,
    },
    /// Consul refused the election's key: a lock delay after the former leader, or somebody else
    /// was faster.
    #[error("the key can't be acquired at the moment")]
    KeyUnavailable,
}
