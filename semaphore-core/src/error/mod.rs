//! Every error of the core, typed. There are three families: wrong input of the caller
//! ([`InvalidInput`]), the failure of one request ([`RequestError`]), and the failure of an
//! operation ([`Error`]).
//!
//! # Printing them
//! `Display` is enough. It shows in one line, without secrets, what failed, on which semaphore, at
//! which agent, why, with all causes, and what to do. So print an error with `{}`.
//! [`source`](std::error::Error::source) is for programs that look for a cause. A program that also
//! prints the chain, as `{:#}` of `anyhow` does, shows the causes twice.

mod lost;
mod refusal;
mod request;
mod seen;

use core::time::Duration;
use std::sync::Arc;

pub use crate::asked::Asked;
pub use crate::input::{Flaw, InvalidInput};
use crate::one_line::{Brief, WithCauses};
pub use crate::subject::Subject;
pub use lost::Lost;
pub use refusal::{Conflict, Refusal};
pub use request::{ParseError, RequestError};
pub use seen::{Holder, Seen};
pub(crate) use seen::{MOST_READ, shown_value};

/// How an operation on a semaphore or in an election failed.
///
/// `Display` shows everything in one line, see the [module](self).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's value can't be used. Nothing was sent.
    #[error("{}invalid input: {input}", .on.intro())]
    InvalidInput {
        /// What is wrong with it.
        #[source]
        input: InvalidInput,
        /// Which semaphore or election.
        on: Subject,
    },
    /// The semaphore under this prefix has another limit. Use that limit, let the builder adopt it,
    /// or resize the semaphore.
    #[error(
        "{}the limit is {ours} here, but the semaphore's record says {theirs}: connect with {theirs}, let the builder adopt the \
         record's limit, or resize the semaphore to {ours}",
        .on.intro()
    )]
    LimitConflict {
        /// The limit given here.
        ours: u32,
        /// The limit in the record.
        theirs: u32,
        /// Which semaphore.
        on: Subject,
    },
    /// The key `<prefix>/.lock` is not a record of a known kind of semaphore. It was not changed.
    /// Use another prefix, or remove that key.
    #[error(
        "{}the key {key:?} is not a semaphore's: {conflict}; it was not touched: use another prefix, or remove the key",
        .on.intro()
    )]
    Conflict {
        /// The key.
        key: String,
        /// What was found there.
        #[source]
        conflict: Conflict,
        /// Which semaphore.
        on: Subject,
    },
    /// The key is not an election's. It belongs to a semaphore, has other flags, or its value or
    /// session was stored without `acquire`. It was not changed. Use another key, or remove what is
    /// there.
    #[error(
        "{}the key {key:?} is not an election's: {conflict}; it was not touched: use another key, or remove what is there",
        .on.intro()
    )]
    NotAnElection {
        /// The key.
        key: String,
        /// What was found there.
        #[source]
        conflict: Conflict,
        /// Which election.
        on: Subject,
    },
    /// A request failed permanently, or failed when there was no time for another try.
    #[error("{}{_0}", _0.asked().subject().intro())]
    Request(#[source] RequestError),
    /// The list of the prefix is incomplete, so dead holders can't be recognised (S3). The token
    /// needs `key_prefix` read on the whole prefix.
    #[error(
        "{}the list of {prefix:?} is incomplete: the token may not read all of it; it lacks the permission: key_prefix \
         \"{prefix}/\" write, which includes read",
        .on.intro()
    )]
    IncompleteView {
        /// The prefix.
        prefix: String,
        /// Which semaphore.
        on: Subject,
    },
    /// The caller's timeout is over. What it waited for was not granted, or continues in the
    /// background. A cancellation is different: it returns nothing.
    #[error(
        "{}{within} within {}{}",
        .on.intro(),
        Brief(*.waited),
        why_late(*.unattended, .last_failure.as_ref(), *.unanswered, .seen.as_deref())
    )]
    Timeout {
        /// What was waited for.
        within: Awaited,
        /// How long it waited.
        waited: Duration,
        /// The last failure since the last success, or what has not succeeded yet.
        #[source]
        last_failure: Option<RequestError>,
        /// Who held the slots or led, and who waited ahead, by Consul's last answer. `None` if it
        /// has not shown that yet.
        seen: Option<Box<Seen>>,
        /// How long Consul has not answered, if that is long for this wait. `None` if it answers.
        unanswered: Option<Duration>,
        /// How long nobody has run the driver, if that is the reason: the runtime stands still, for
        /// example because its executor is blocked.
        unattended: Option<Duration>,
        /// Which semaphore or election.
        on: Subject,
    },
    /// Some hold or wait for the semaphore.
    #[error("{}the semaphore is in use: {holders} hold a slot, {waiters} wait; try again when they are done", .on.intro())]
    InUse {
        /// Live holders.
        holders: usize,
        /// Live waiters.
        waiters: usize,
        /// Which semaphore.
        on: Subject,
    },
    /// There is no semaphore under this prefix, or the token may not see it. Agents before 1.11
    /// don't distinguish these.
    #[error(
        "{}there is no semaphore under this prefix: nobody has used it yet, or the token may not read it: it needs \
         key_prefix read on the prefix",
        .on.intro()
    )]
    NotFound {
        /// Which semaphore.
        on: Subject,
    },
    /// The permit or leadership was lost before it was given back. The protected work may have
    /// overlapped with another holder's.
    #[error("{_0}{}", given_back_later(_0))]
    Lost(#[source] Lost),
    /// The runtime could not start the task that talks to Consul. The process may have no more
    /// threads, or the runtime has ended or has no timers. Nothing was sent.
    #[error("{}the runtime can't run the task that speaks to Consul: {}", .on.intro(), WithCauses(&**.source))]
    NoTask {
        /// Why not.
        source: Arc<std::io::Error>,
        /// Which semaphore or election.
        on: Subject,
    },
    /// The handle is closed and grants nothing more.
    #[error("{}{by}", .on.intro())]
    Closed {
        /// Why not.
        by: ClosedBy,
        /// Which semaphore or election.
        on: Subject,
    },
}

/// Why a handle grants nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ClosedBy {
    /// `close` or `shutdown` was called, on this handle, on a clone, or on its client.
    #[error(
        "the handle was closed: close or shutdown was called on it, on a clone or on its client; connect again"
    )]
    Owner,
    /// The runtime that connected it has ended, and with it the task that talks to Consul. Tests
    /// with one runtime each need one handle each: a handle in a static belongs to the first test's
    /// runtime.
    #[error(
        "the handle is closed, since the runtime that it was connected on has ended: connect one on this runtime (a \
         handle in a static belongs to the first runtime that uses it, for example to that of one test)"
    )]
    RuntimeEnded,
    /// This process was forked off from the one that connected it, and has no driver.
    #[error(
        "the handle is closed, since this process was forked off after it was connected: connect again after the fork"
    )]
    Fork,
}

/// What did not happen in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Awaited {
    /// The grant of a slot or the lead. Nothing is held.
    #[error("nothing was granted")]
    Grant,
    /// Giving back. It is no longer held; the rest continues in the background.
    #[error("what was held was not given back (that goes on in the background)")]
    Release,
    /// A change. It continues in the background.
    #[error("the change was not confirmed (it goes on in the background)")]
    Change,
    /// A shutdown: all permits given back, and nothing left in Consul. It continues in the
    /// background.
    #[error("the shutdown did not end (it goes on in the background)")]
    Shutdown,
}

/// The subject of an error that keeps its own.
macro_rules! subject_of {
    ($error:expr) => {
        match $error {
            Error::InvalidInput { on, .. }
            | Error::LimitConflict { on, .. }
            | Error::Conflict { on, .. }
            | Error::NotAnElection { on, .. }
            | Error::IncompleteView { on, .. }
            | Error::Timeout { on, .. }
            | Error::InUse { on, .. }
            | Error::NotFound { on }
            | Error::NoTask { on, .. }
            | Error::Closed { on, .. } => Some(on),
            Error::Request(_) | Error::Lost(_) => None,
        }
    };
}

impl Error {
    /// Its owner has closed it.
    pub(crate) fn closed() -> Self {
        ClosedBy::Owner.into()
    }

    /// Its runtime has ended.
    pub(crate) fn ended() -> Self {
        ClosedBy::RuntimeEnded.into()
    }

    /// Something did not happen within this time, for an unknown reason.
    pub(crate) fn late(within: Awaited, waited: Duration) -> Self {
        Self::Timeout {
            within,
            waited,
            last_failure: None,
            seen: None,
            unanswered: None,
            unattended: None,
            on: Subject::default(),
        }
    }

    /// Adds how long nobody has run the driver.
    #[must_use]
    pub(crate) fn unattended(mut self, time: Option<Duration>) -> Self {
        if let (Self::Timeout { unattended, .. }, Some(_)) = (&mut self, time) {
            *unattended = time;
        }
        self
    }

    /// Adds for how long Consul has not answered.
    #[must_use]
    pub(crate) fn unanswered(mut self, silence: impl FnOnce(Duration) -> Option<Duration>) -> Self {
        if let Self::Timeout {
            unanswered, waited, ..
        } = &mut self
        {
            *unanswered = silence(*waited);
        }
        self
    }

    /// The semaphore or election that it is about, and the agent. `None` if that is unknown or
    /// there is none.
    pub fn subject(&self) -> Option<Subject> {
        let subject = match self {
            Self::Request(error) => error.asked().subject(),
            Self::Lost(lost) => lost.subject()?.clone(),
            _ => subject_of!(self)?.clone(),
        };
        Some(subject).filter(|subject| !subject.is_unknown())
    }

    /// Adds this subject, unless there is one already.
    #[must_use]
    pub(crate) fn or_about(mut self, subject: &Subject) -> Self {
        if let Some(on) = subject_of!(&mut self) {
            on.or_set(subject);
        }
        match self {
            Self::Request(error) => Self::Request(error.or_about(subject)),
            Self::Lost(lost) => Self::Lost(lost.or_about(subject)),
            error => error,
        }
    }
}

/// What a late release means. A forked process gives nothing back.
fn given_back_later(lost: &Lost) -> &'static str {
    match lost {
        Lost::Forked { .. } => "",
        _ => "; it was given back after that, and what it protected may have overlapped",
    }
}

impl From<InvalidInput> for Error {
    fn from(input: InvalidInput) -> Self {
        let on = Subject::default();
        Self::InvalidInput { input, on }
    }
}

impl From<ClosedBy> for Error {
    fn from(by: ClosedBy) -> Self {
        let on = Subject::default();
        Self::Closed { by, on }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Why it was late, as far as is known.
fn why_late(
    unattended: Option<Duration>,
    last_failure: Option<&RequestError>,
    unanswered: Option<Duration>,
    seen: Option<&Seen>,
) -> String {
    if let Some(unattended) = unattended {
        return format!(
            ": nobody ran the task that speaks to Consul for {}; is its runtime blocked, or driven by nobody?",
            Brief(unattended)
        );
    }
    match (last_failure, unanswered, seen) {
        (Some(failure), _, _) => format!(": {failure}"),
        (None, Some(silence), None) => format!(": Consul has not answered for {}", Brief(silence)),
        (None, Some(silence), Some(seen)) => format!(
            ": Consul has not answered for {}; by its last answer {seen}",
            Brief(silence)
        ),
        (None, None, Some(seen)) => format!(": Consul answers: {seen}"),
        (None, None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Larger errors would break clippy's `result_large_err` for types that wrap them.
    #[test]
    fn an_error_leaves_room_for_what_is_around_it() {
        assert!(size_of::<Error>() <= 112, "{}", size_of::<Error>());
        assert!(size_of::<Lost>() <= 112, "{}", size_of::<Lost>());
    }
}
