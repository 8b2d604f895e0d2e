//! What is wrong with the caller's input.

use core::time::Duration;

use super::Flaw;

/// What is wrong with a value from the caller. It is found before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// A semaphore's prefix can't be used, or Consul would read it as another one.
    #[error("the prefix {prefix:?} {flaw}")]
    Prefix {
        /// Its beginning.
        prefix: String,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// An election's key can't be used, or Consul would read it as another one.
    #[error("the key {key:?} {flaw}")]
    Key {
        /// Its beginning.
        key: String,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The limit is zero.
    #[error("the limit is 0; a semaphore has at least one slot")]
    LimitZero,
    /// The record of so many holders would not fit into a transaction. Split the semaphore over
    /// several prefixes.
    #[error(
        "the limit is {limit}, and a semaphore has at most {max} slots: split it over several prefixes"
    )]
    LimitTooLarge {
        /// The number of slots.
        limit: u32,
        /// The most slots.
        max: u32,
    },
    /// Zero permits were requested.
    #[error("0 permits were asked for; ask for at least one")]
    PermitsZero,
    /// More permits were requested than there are slots, so they could never be granted.
    #[error(
        "{wanted} permits were asked for at once, but the limit is {limit}; ask for {limit} at most"
    )]
    PermitsOverLimit {
        /// The requested number.
        wanted: u32,
        /// The number of slots.
        limit: u32,
    },
    /// One transaction has no room for so many permits. Ask for fewer at a time, or split the
    /// semaphore over several prefixes.
    #[error(
        "{wanted} permits were asked for at once, and one transaction has room for {max}: ask for {max} at most, or let a slot of another semaphore stand for several"
    )]
    PermitsOverTransaction {
        /// The requested number.
        wanted: u32,
        /// The most at once.
        max: u32,
    },
    /// A session's TTL is outside Consul's bounds.
    #[error("the session TTL {0:?} is outside 10 s to 24 h")]
    Ttl(Duration),
    /// A lock delay is over Consul's bound.
    #[error("the lock delay {0:?} is over 60 s")]
    LockDelay(Duration),
    /// The greatest age of a follower's knowledge is outside 3 s to 10 min.
    #[error("a max_age of {0:?} is outside 3 s to 10 min")]
    MaxAge(Duration),
    /// A value is too large for Consul, or for the transaction of a claim.
    #[error("the value has {len} bytes, and at most {max} fit")]
    ValueTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// A record that others have written is so large that no claim fits into a transaction with it.
    #[error(
        "with {holders} holders the record has {len} bytes, and a claim does not fit into a transaction of {max} bytes with it: split the semaphore over several prefixes"
    )]
    RecordTooLarge {
        /// The number of holders.
        holders: usize,
        /// Its length in bytes.
        len: usize,
        /// The most bytes of a transaction.
        max: usize,
    },
    /// Not a session's id, which is a UUID of 36 characters.
    #[error(
        "{0:?} is not a session id, which is a UUID such as 4ca8e74b-6350-7587-addf-a18084928f3c"
    )]
    SessionId(String),
    /// The token is empty, or has a character that an HTTP header can't have, such as a line break.
    /// The token is not shown.
    #[error("the ACL token is empty or has characters that an HTTP header can't carry")]
    Token,
    /// HTTP Basic authentication can't carry the user and password: the user has a colon, or either
    /// has a control character. They are not shown.
    #[error("the user has a colon, or the user or the password a control character")]
    BasicAuth,
    /// A name (of a datacenter, namespace, partition, node or check) is empty or has a control
    /// character.
    #[error("the {what} {name:?} is empty or has a control character")]
    Name {
        /// What the name is for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name is too long for the URL of each request.
    #[error("the {what} has {len} bytes in a URL, and at most {max} are allowed")]
    NameTooLong {
        /// What the name is for.
        what: &'static str,
        /// Its length in a URL, in bytes.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// A separate node was combined with another node or with health checks. It has no agent, so it
    /// has no checks.
    #[error("a separate node can't be combined with {beside}; leave one of them out")]
    OwnNode {
        /// The other option.
        beside: &'static str,
    },
    /// The text is not a sequencer, as [`Sequencer`](crate::Sequencer) prints it.
    #[error("{0:?} is not the text of a sequencer: refuse its bearer")]
    Sequencer(String),
    /// The sequencer's key does not guard the resource. Anybody can acquire some key: refuse the
    /// bearer.
    #[error("the sequencer is of another key, {0:?}: refuse its bearer")]
    SequencerOfAnother(String),
}
