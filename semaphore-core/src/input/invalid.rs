//! What is wrong with what the caller gives.

use core::time::Duration;

/// What is wrong with a value that the caller gave. Found before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The prefix is empty, or nothing but a slash. Give it a name such as `service/db`.
    #[error("the prefix is empty; give it a name such as service/db")]
    PrefixEmpty,
    /// The prefix has an empty segment (`a//b`), which Consul would redirect to another key.
    #[error(
        "the prefix {0:?} has an empty segment, which Consul would redirect to another key; leave one slash out"
    )]
    PrefixEmptySegment(String),
    /// The prefix has a segment `.` or `..`, which Consul would resolve to another key.
    #[error("the prefix {0:?} has a segment of dots, which Consul would resolve to another key")]
    PrefixDotSegment(String),
    /// The prefix holds a control character.
    #[error("the prefix {0:?} has a control character, which Consul does not take")]
    PrefixControlCharacter(String),
    /// The prefix holds a character that Consul's HTTP server takes for unprintable, such as a space that does not
    /// break a line.
    #[error(
        "the prefix {prefix:?} has a character that is not printable: U+{:04X}",
        u32::from(*character)
    )]
    PrefixUnprintable {
        /// The prefix that was given.
        prefix: String,
        /// The first such character.
        character: char,
    },
    /// The prefix begins or ends with a space, which agents from 1.22 refuse.
    #[error("the prefix {0:?} has a space at one of its ends, which agents from 1.22 refuse")]
    PrefixOuterSpace(String),
    /// The prefix holds a `%` before two hexadecimal digits. Some agents decode that once more, so that it would be two
    /// keys (1.12.0 to 1.12.2), and some refuse it (1.22).
    #[error(
        "the prefix {0:?} has a `%` before two hexadecimal digits, which agents read differently"
    )]
    PrefixEncoded(String),
    /// The prefix is longer than a URL may be.
    #[error("the prefix has {len} bytes in a URL; it may have {max}; give it a shorter one")]
    PrefixTooLong {
        /// Its length in a URL, in bytes.
        len: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// The last segment of the prefix is `.lock`, the name of the record itself: what is meant is the part before it.
    #[error(
        "the prefix {0:?} ends in `.lock`, the name of the record below the prefix; leave that out"
    )]
    PrefixOfRecord(String),
    /// The key of an election that is empty, or that Consul would read as another one. Give it a name
    /// such as `service/db/leader`.
    #[error("the key {key:?} {flaw}")]
    Key {
        /// The key that was given.
        key: String,
        /// What is wrong with it.
        flaw: &'static str,
    },
    /// A limit of no slots at all.
    #[error("the limit is 0; a semaphore has at least one slot")]
    LimitZero,
    /// No permits were asked for.
    #[error("0 permits were asked for; ask for at least one")]
    PermitsZero,
    /// More permits at once than there are slots: it could never be served.
    #[error(
        "{wanted} permits were asked for at once, but the limit is {limit}; ask for {limit} at most"
    )]
    PermitsOverLimit {
        /// How many were asked for.
        wanted: u32,
        /// How many slots there are.
        limit: u32,
    },
    /// Several permits need a session each, and a session of the caller's is only one.
    #[error(
        "a session that the caller gives carries one permit, not {wanted}; let the semaphore make the sessions, or ask for 1"
    )]
    PermitsOverSession {
        /// How many were asked for.
        wanted: u32,
    },
    /// A session's TTL outside Consul's bounds.
    #[error("the session TTL {0:?} is outside 10 s to 24 h")]
    Ttl(Duration),
    /// A lock delay over Consul's bound.
    #[error("the lock delay {0:?} is over 60 s")]
    LockDelay(Duration),
    /// The age that what a follower knows may reach is outside 3 s to 10 min.
    #[error("a max_age of {0:?} is outside 3 s to 10 min")]
    MaxAge(Duration),
    /// A value over the size that Consul stores, or that fits into the transaction of a claim.
    #[error("the value has {len} bytes, and at most {max} fit")]
    ValueTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The largest length in bytes.
        max: usize,
    },
    /// A record that would be larger than Consul stores: with so many holders no more fit, whatever the limit is.
    #[error(
        "with {holders} holders the record has {len} bytes, and Consul stores at most {max}: split the semaphore over several prefixes"
    )]
    RecordTooLarge {
        /// How many would hold.
        holders: usize,
        /// Its length in bytes.
        len: usize,
        /// The largest length in bytes.
        max: usize,
    },
    /// Not a session's id, which is a UUID of 36 characters.
    #[error(
        "{0:?} is not a session id, which is a UUID such as 4ca8e74b-6350-7587-addf-a18084928f3c"
    )]
    SessionId(String),
    /// The token is empty or holds a character that can't travel in an HTTP header, such as a
    /// line break. The token itself is not shown.
    #[error("the ACL token is empty or has characters that an HTTP header can't carry")]
    Token,
    /// A user and a password that HTTP Basic authentication can't carry: the user has a colon, or either has a control
    /// character. They are not shown.
    #[error("the user has a colon, or the user or the password a control character")]
    BasicAuth,
    /// A name (of a datacenter, namespace, partition, node or check) that is empty or holds a
    /// control character.
    #[error("the {what} {name:?} is empty or has a control character")]
    Name {
        /// Which name it is.
        what: &'static str,
        /// The name that was given.
        name: String,
    },
    /// A name that travels in the URL of each request, and is longer than one may be.
    #[error("the {what} has {len} bytes in a URL; it may have {max}")]
    NameTooLong {
        /// Which name it is.
        what: &'static str,
        /// Its length in a URL, in bytes.
        len: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// A separate node together with another node or with health checks: no agent stands for it, so that it has none.
    #[error("a separate node can't be combined with {beside}; leave one of them out")]
    OwnNode {
        /// What was given beside it.
        beside: &'static str,
    },
    /// A text that is no sequencer, as [`Sequencer`](crate::Sequencer) prints it.
    #[error("{0:?} is not the text of a sequencer: refuse its bearer")]
    Sequencer(String),
    /// A sequencer of a key that does not guard what its bearer asks for. Anybody can acquire some
    /// key: refuse the bearer.
    #[error("the sequencer is of another key, {0:?}: refuse its bearer")]
    SequencerOfAnother(String),
}
