//! Why a try was refused, and why a key is left alone.

use crate::id::SessionId;

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
    #[error("{waiters} waiters come first, and {free} slots are free")]
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
