//! The failures, with their texts and exit codes.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use signal_hook::consts::SIGPIPE;
use transport_ureq::{BuildError, Conflict, Error, InvalidInput, RequestError, SessionId};

use crate::exit::Exit;

/// Why this program could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// The agent's address, TLS or token can't be used.
    #[error("the connection to Consul can't be set up")]
    Connection(#[source] BuildError),
    /// An error of the semaphore or election.
    #[error(transparent)]
    Consul(#[from] Error),
    /// A request of this program itself failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Another failure with its subject and agent, as in the libraries' errors.
    #[error("{on}: {source}")]
    About {
        /// The subject and the agent.
        on: String,
        /// What went wrong.
        source: Box<Failure>,
    },
    /// There is no semaphore.
    #[error(
        "there is no semaphore under this prefix: nobody has used it yet, or the token may not read it (key_prefix read); \
         `list` shows what there is"
    )]
    NoSemaphore,
    /// It is an election.
    #[error("{key} is an election's key, not a semaphore: `elect status {key}` shows who leads")]
    AnElection {
        /// The key.
        key: String,
    },
    /// The record belongs to something else.
    #[error("the key {key:?} is not a semaphore's: {source}; give another prefix")]
    NotASemaphore {
        /// The key.
        key: String,
        /// What was found there.
        source: Conflict,
    },
    /// The list is incomplete.
    #[error(
        "the token may not read all keys below {prefix:?}: give it key_prefix read there; `check` prints the policy"
    )]
    Hidden {
        /// The prefix.
        prefix: String,
    },
    /// The agent answered that it can't serve.
    #[error("the agent can't serve: {status} {text}; `check` says more")]
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// Its text.
        text: String,
    },
    /// The background task has ended, so nothing can be requested any more.
    #[error("the task that speaks to Consul has ended")]
    Ended,
    /// There was no answer for this time.
    #[error("Consul has not answered for {seconds} s")]
    Silent {
        /// For how long.
        seconds: u64,
        /// The last failure.
        source: Box<Failure>,
    },
    /// Nothing was free, and waiting was not allowed.
    #[error("nothing was granted: {0}")]
    NotGranted(transport_ureq::Refusal),
    /// The command can't be started.
    #[error("the command {program:?} can't be run")]
    Program {
        /// Its name.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// The operating system refused something.
    #[error("{what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A pipe has no reader, so that opening it would wait for one.
    #[error("{file:?} is a pipe that nobody reads: start its reader first, or give a file")]
    NoReader {
        /// Which one.
        file: PathBuf,
    },
    /// A file can't be read or written.
    #[error("{file:?} can't be {what}")]
    File {
        /// What should be done with it.
        what: &'static str,
        /// Which one.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no such session, or the token may not see it.
    #[error(
        "there is no such session, or the token may not read sessions; `status` shows those of a semaphore"
    )]
    NoSession,
    /// The session contends for something else.
    #[error(
        "the session {session} neither holds nor waits here, so nothing was changed; `status` shows who does"
    )]
    NotThere {
        /// Which one.
        session: SessionId,
    },
    /// The user said no.
    #[error("nothing was changed")]
    Declined,
    /// The reader of the output, such as `head`, has read enough.
    #[error("nobody reads the output any more")]
    ReaderGone,
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(crate) fn file(what: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::File { what, file, source }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_)
            | Self::Connection(_)
            | Self::System { .. }
            | Self::File { .. }
            | Self::NoReader { .. }
            | Self::Ended => Exit::USAGE,
            Self::About { source, .. } => source.exit(),
            Self::Consul(error) => of_error(error),
            Self::Request(error) => of_request(error),
            Self::Silent { .. } | Self::Unavailable { .. } => Exit::UNREACHABLE,
            Self::NotASemaphore { .. } | Self::AnElection { .. } => Exit::CONFLICT,
            Self::Hidden { .. } => Exit::REFUSED,
            Self::NotGranted(_) => Exit::NOT_GRANTED,
            Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Exit::NOT_FOUND
            }
            Self::Program { .. } => Exit::CANNOT_RUN,
            Self::ReaderGone => Exit::of_signal(SIGPIPE),
            Self::Declined | Self::NoSession | Self::NotThere { .. } | Self::NoSemaphore => {
                Exit::NO
            }
        }
    }

    /// Adds its subject, unless its text has one. The libraries' errors do, and a bad command line
    /// needs none.
    #[must_use]
    pub(crate) fn about(self, on: impl FnOnce() -> String) -> Self {
        match self {
            Self::Request(_)
            | Self::NoSemaphore
            | Self::AnElection { .. }
            | Self::NotASemaphore { .. }
            | Self::Hidden { .. }
            | Self::Unavailable { .. }
            | Self::Silent { .. }
            | Self::NotGranted(_)
            | Self::NoSession
            | Self::NotThere { .. } => Self::About {
                on: on(),
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// The error and its causes, in one line.
    pub(crate) fn whole(&self) -> String {
        whole(self)
    }
}

impl From<InvalidInput> for Failure {
    fn from(error: InvalidInput) -> Self {
        Self::Consul(error.into())
    }
}

/// An error and its causes, in one line.
pub(crate) fn whole(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors include the text of their causes.
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

#[allow(
    clippy::unneeded_struct_pattern,
    reason = "what a variant holds is of no account here"
)]
fn of_error(error: &Error) -> Exit {
    match error {
        Error::LimitConflict { .. }
        | Error::Conflict { .. }
        | Error::NotAnElection { .. }
        | Error::InUse { .. } => Exit::CONFLICT,
        Error::IncompleteView { .. } => Exit::REFUSED,
        // After a timeout the user wants to know whether others or Consul were the reason.
        Error::Request(error)
        | Error::Timeout {
            last_failure: Some(error),
            ..
        } => of_request(error),
        Error::Timeout {
            unanswered: Some(_),
            ..
        } => Exit::UNREACHABLE,
        Error::Timeout { .. } => Exit::NOT_GRANTED,
        Error::NotFound { .. } => Exit::NO,
        Error::Lost(_) => Exit::LOST,
        _ => Exit::USAGE,
    }
}

fn of_request(error: &RequestError) -> Exit {
    match error {
        RequestError::RefusedForNow(error) => of_request(error),
        error if error.is_permanent() && !matches!(error, RequestError::Transport(_)) => {
            Exit::REFUSED
        }
        _ => Exit::UNREACHABLE,
    }
}
