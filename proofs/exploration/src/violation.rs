//! What must never happen.

/// A promise that a run broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// More believe that they hold than there are slots.
    #[error("S1: {believers} believe that they hold one of {limit} slots")]
    TooManyHolders {
        /// How many believe.
        believers: usize,
        /// How many slots there are.
        limit: u32,
    },
    /// Somebody believes in a hold that Consul knows nothing of.
    #[error("S1: {caller} believes in a hold that is not in the record")]
    UnfoundedBelief {
        /// Who.
        caller: String,
    },
    /// The limit was changed where nobody had asked for it, or where somebody held.
    #[error(
        "S4: {writer} sets the limit to {limit} although somebody holds, or nobody asked for it"
    )]
    LimitChanged {
        /// Who wrote it.
        writer: String,
        /// What the record says then.
        limit: u32,
    },
    /// A write names more holders than there are slots.
    #[error("S1: the record names {holders} holders of {limit} slots")]
    OverfullRecord {
        /// How many.
        holders: usize,
        /// How many slots there are.
        limit: u32,
    },
    /// A holder with a live session was taken out by another participant.
    #[error("S3: {writer} took the live holder {session} out of the record")]
    LiveHolderRemoved {
        /// Who did.
        writer: String,
        /// Whose session.
        session: String,
    },
    /// The record was written without check-and-set, or deleted.
    #[error("S4: {writer} changed the record without check-and-set")]
    PlainWrite {
        /// Who did.
        writer: String,
    },
    /// A record that is not understood was replaced.
    #[error("S4: {writer} replaced a record that it can't have understood")]
    GarbageReplaced {
        /// Who did.
        writer: String,
    },
    /// The record that was written can't be read.
    #[error("S4: {writer} wrote a record that can't be read")]
    GarbageWritten {
        /// Who did.
        writer: String,
    },
    /// A leader wrote what nobody had asked it to write, or what is older than what it was told last.
    #[error("S4: {writer} wrote {value:?} into the key, which it was not asked for, or no more")]
    WrongValueWritten {
        /// Who did.
        writer: String,
        /// What the key says.
        value: String,
    },
    /// A leader left the key with what it had not written, or with what is older than what it was told last.
    #[error("S4: {writer} left the key with {value:?}, which is not the last that it had said")]
    WrongValueLeft {
        /// Who did.
        writer: String,
        /// What the key says.
        value: String,
    },
    /// A leader was told that the key says what it has never said.
    #[error("S4: {caller} was told that the key says {value:?}, which it never did")]
    ToldUnshown {
        /// Who was told.
        caller: String,
        /// What the key should say.
        value: String,
    },
    /// Tokens are not in the order of the writes that admitted.
    #[error("S5: token {token:?} is not in order with {other:?}, which was granted too")]
    TokenOutOfOrder {
        /// The newer grant's: the index of the key, and the number within the write.
        token: (u64, u64),
        /// Another grant's.
        other: (u64, u64),
    },
    /// A leader learned of its changes in another order than it had asked for them.
    #[error("L1: {caller} was told of its changes out of their order")]
    ToldOutOfOrder {
        /// Who was told.
        caller: String,
    },
    /// A machine told what nobody waits for, or was told already.
    #[error("L1: {node} told what nobody waits for: {outcome}")]
    ToldForNothing {
        /// Which machine.
        node: String,
        /// What it told.
        outcome: String,
    },
    /// Nothing more can happen, and not everybody is served and gone.
    #[error("L1: nothing can go on, and not everybody was served and left nothing behind")]
    Stuck,
    /// Whatever happens from here, not everybody is served and gone.
    #[error("L1: from here on not everybody can be served and leave nothing behind")]
    Hopeless,
    /// A participant is done, and something of it is in Consul, though nothing went wrong.
    #[error("L2: {owner} is done, and its session {session} is still there")]
    LeftBehind {
        /// Who.
        owner: String,
        /// Its session.
        session: String,
    },
    /// A participant asks again and again at one instant.
    #[error("L3: {sender} sent {requests} requests at one instant")]
    HotLoop {
        /// Who.
        sender: String,
        /// How many.
        requests: usize,
    },
    /// A hold was lost to what a hold outlives.
    #[error("L4: {caller} lost its hold: {reason}")]
    LostForNothing {
        /// Who.
        caller: String,
        /// Why it believes that it did.
        reason: String,
    },
    /// An acquisition, or a release, failed for what is to be tried again.
    #[error("L4: {caller} failed: {error}")]
    FailedForNothing {
        /// Who.
        caller: String,
        /// With what.
        error: String,
    },
    /// The exploration's own: it takes two states for one that something tells apart.
    #[error("two states that were taken for one don't lead to the same states")]
    NotTheSame,
}
