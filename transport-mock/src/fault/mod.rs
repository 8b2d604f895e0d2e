//! What can go wrong with one exchange, when, and with which probability.
//!
//! ```text
//!           request                           Consul            answer
//!  client ───────────────────────────────────▶ applied ───────────────────────────▶ client
//!     │ Refuse      LoseRequest   Answer          │    LoseAnswer   AnswerAfter
//!     │ (not sent)  ResetBefore   (not applied)   │    ResetAfter   BadAnswer
//!     │             Delay  Duplicate  Twice       │    DelayAnswer  Index  NoIndex
//! ```
//!
//! A [`Rule`] aims a fault; the rates of [`Faults`] make faults at random. Rules come first, in the
//! order in which they were given. The first one that matches decides.

mod rates;
mod rule;

use std::fmt;
use std::time::Duration;

use semaphore_core::adapter::Response;

pub use self::rates::Faults;
pub(crate) use self::rates::Outage;
pub use self::rule::Rule;
pub(crate) use self::rule::Rules;

/// What goes wrong with one exchange. The
/// [`TransportErrorKind`](semaphore_core::adapter::TransportErrorKind) in parentheses is what the
/// client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is refused (`NotSent`). Consul sees nothing.
    Refuse,
    /// The request is lost (`Timeout`). Consul sees nothing.
    LoseRequest,
    /// Consul applies the request, and its answer is lost (`Timeout`).
    LoseAnswer,
    /// The connection breaks before the request arrives (`Unknown`). Consul sees nothing.
    ResetBefore,
    /// The connection breaks after Consul has applied the request (`Unknown`).
    ResetAfter,
    /// The request takes this much longer.
    Delay(Duration),
    /// The answer takes this much longer.
    DelayAnswer(Duration),
    /// The request arrives again, this much later. The second answer is lost.
    Duplicate(Duration),
    /// The request arrives twice, and the client gets the second answer: a proxy in between mirrors it, or repeats it.
    Twice,
    /// The client gets this at once. Consul sees nothing. See [`Fault::too_many_requests`],
    /// [`Fault::no_leader`] and [`Fault::unavailable`].
    Answer(Response),
    /// Consul applies the request, and the client gets this instead of its answer, for example a
    /// proxy's 504 or a page of HTML.
    AnswerAfter(Response),
    /// Consul applies the request, and its answer arrives cut short (`BadAnswer`).
    BadAnswer,
    /// `X-Consul-Index` of the answer is replaced, as after a restored snapshot.
    Index(u64),
    /// `X-Consul-Index` of the answer is missing, as behind a gateway that drops it.
    NoIndex,
}

impl Fault {
    /// The answer of an agent whose rate limit is exceeded: 429.
    pub fn too_many_requests() -> Self {
        Self::Answer(Response::new(
            429,
            "rate limit exceeded, try again later or against a different server",
        ))
    }

    /// The answer of an agent that knows no leader: 500.
    pub fn no_leader() -> Self {
        Self::Answer(Response::new(500, "No cluster leader"))
    }

    /// The answer of a leader whose rate limit is exceeded: 503.
    pub fn unavailable() -> Self {
        Self::Answer(Response::new(
            503,
            "rate limit exceeded for operation that can only be performed by the leader, try again later",
        ))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse => f.write_str("connection refused"),
            Self::LoseRequest => f.write_str("request lost"),
            Self::LoseAnswer => f.write_str("answer lost"),
            Self::ResetBefore => f.write_str("reset before delivery"),
            Self::ResetAfter => f.write_str("reset after delivery"),
            Self::Delay(by) => write!(f, "request delayed by {by:?}"),
            Self::DelayAnswer(by) => write!(f, "answer delayed by {by:?}"),
            Self::Duplicate(after) => write!(f, "delivered again {after:?} later"),
            Self::Twice => f.write_str("delivered twice"),
            Self::Answer(response) => write!(f, "answered {} on the way", response.status()),
            Self::AnswerAfter(response) => {
                write!(f, "answer replaced by a {}", response.status())
            }
            Self::BadAnswer => f.write_str("answer cut short"),
            Self::Index(index) => write!(f, "index replaced by {index}"),
            Self::NoIndex => f.write_str("index left out"),
        }
    }
}
