//! What must never happen.

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// More callers believe that they hold than there are slots.
    #[error("S1: {believers} believe that they hold one of {limit} slots")]
    TooManyHolders {
        /// How many callers believe.
        believers: usize,
        /// How many slots there are.
        limit: u32,
    },
    /// A caller believes in a hold that Consul does not know of.
    #[error("S1: {caller} believes in a hold that is not in the record")]
    UnfoundedBelief {
        /// The caller.
        caller: String,
    },
    /// The limit was changed although nobody had asked for it, or while somebody held.
    #[error(
        "S4: {writer} sets the limit to {limit} although somebody holds, or nobody asked for it"
    )]
    LimitChanged {
        /// The writer.
        writer: String,
        /// The record's new limit.
        limit: u32,
    },
    /// A write names more holders than there are slots.
    #[error("S1: the record names {holders} holders of {limit} slots")]
    OverfullRecord {
        /// The number of holders.
        holders: usize,
        /// How many slots there are.
        limit: u32,
    },
    /// A claim took a slot before a waiter that had come earlier, of whom its sender knew, and that it
    /// might not pass.
    #[error(
        "Queue: {writer} takes a slot before the waiter {session}, who was known to stand ahead"
    )]
    OutOfTurn {
        /// The writer.
        writer: String,
        /// The session of the waiter.
        session: String,
    },
    /// Another participant removed a holder with a live session.
    #[error("S3: {writer} took the live holder {session} out of the record")]
    LiveHolderRemoved {
        /// The writer.
        writer: String,
        /// The removed session.
        session: String,
    },
    /// The record was written without check-and-set, or deleted.
    #[error("S4: {writer} changed the record without check-and-set")]
    PlainWrite {
        /// The writer.
        writer: String,
    },
    /// A record that can't be understood was replaced.
    #[error("S4: {writer} replaced a record that it can't have understood")]
    GarbageReplaced {
        /// The writer.
        writer: String,
    },
    /// The written record can't be read.
    #[error("S4: {writer} wrote a record that can't be read")]
    GarbageWritten {
        /// The writer.
        writer: String,
    },
    /// A leader wrote a value that nobody had asked for, or one that is older than its last
    /// confirmed value.
    #[error("S4: {writer} wrote {value:?} into the key, which it was not asked for, or no more")]
    WrongValueWritten {
        /// The writer.
        writer: String,
        /// The value of the key.
        value: String,
    },
    /// A leader left a value that it had not written, or one that is older than its last confirmed
    /// value.
    #[error("S4: {writer} left the key with {value:?}, which is not the last that it had said")]
    WrongValueLeft {
        /// The writer.
        writer: String,
        /// The value of the key.
        value: String,
    },
    /// A leader was told that its value is set, but the key has never had that value.
    #[error("S4: {caller} was told that the key says {value:?}, which it never did")]
    ToldUnshown {
        /// The caller.
        caller: String,
        /// The value that the key should have.
        value: String,
    },
    /// The order of the tokens differs from that of the writes that admitted.
    #[error("S5: token {token:?} is not in order with {other:?}, which was granted too")]
    TokenOutOfOrder {
        /// The newer grant's token: the index of the key, and the number within the write.
        token: (u64, u64),
        /// The other grant's token.
        other: (u64, u64),
    },
    /// A leader's changes ended in another order than it had asked for them.
    #[error("L1: {caller} was told of its changes out of their order")]
    ToldOutOfOrder {
        /// The caller.
        caller: String,
    },
    /// A machine reported something that nobody waits for, or reported it twice.
    #[error("L1: {node} told what nobody waits for: {outcome}")]
    ToldForNothing {
        /// The machine.
        node: String,
        /// What it reported.
        outcome: String,
    },
    /// Nothing more can happen, but not everybody is served and gone.
    #[error("L1: nothing can go on, and not everybody was served and left nothing behind")]
    Stuck,
    /// Whatever happens from here, never is everybody served and gone.
    #[error("L1: from here on not everybody can be served and leave nothing behind")]
    Hopeless,
    /// A participant has finished without faults, but something of it is left in Consul.
    #[error("L2: {owner} is done, and its session {session} is still there")]
    LeftBehind {
        /// The participant.
        owner: String,
        /// Its session.
        session: String,
    },
    /// A member of a client has finished, but something of it is left on the session that lives on.
    #[error("L2: {owner} is at rest, and something of it is left on the session {session}")]
    LeftOnSession {
        /// The member.
        owner: String,
        /// The session.
        session: String,
    },
    /// A participant sends requests again and again at the same time.
    #[error("L3: {sender} sent {requests} requests at one instant")]
    HotLoop {
        /// The participant.
        sender: String,
        /// The number of requests.
        requests: usize,
    },
    /// A hold was lost to a fault that it must survive.
    #[error("L4: {caller} lost its hold: {reason}")]
    LostForNothing {
        /// The caller.
        caller: String,
        /// The reason that it was given.
        reason: String,
    },
    /// An acquisition or a release failed because of a fault that must be retried.
    #[error("L4: {caller} failed: {error}")]
    FailedForNothing {
        /// The caller.
        caller: String,
        /// The error.
        error: String,
    },
    /// An error of the exploration itself: two states count as the same, but their following states
    /// differ.
    #[error("two states that were taken for one don't lead to the same states")]
    NotTheSame,
}
