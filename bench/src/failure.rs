//! Why a scene can't be measured.

use std::io;
use std::time::Duration;

use real_agent::StartError;
use semaphore_core::{BuildError, Error};

/// Why a scene, or the whole run, has no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No agent to measure on.
    #[error("no agent could be started")]
    Start(#[from] StartError),
    /// The system refused something.
    #[error("{what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A program ended without a report.
    #[error("`{args}` gave no report: {said}")]
    NoReport {
        /// The program's arguments.
        args: String,
        /// The end of what it printed instead.
        said: String,
    },
    /// A report lacks a figure, or has one of another kind.
    #[error("a report can't be read")]
    Report(#[source] serde_json::Error),
    /// A `consul lock` failed.
    #[error("a `consul lock` ended with {code:?}")]
    Lock {
        /// Its exit code, if it had one.
        code: Option<i32>,
    },
    /// An HTTP client can't be made.
    #[error("no client for an election")]
    Client(#[from] BuildError),
    /// An election failed.
    #[error("an election failed")]
    Election(#[from] Error),
    /// Something did not happen in time.
    #[error("{what} took longer than {after:?}")]
    Late {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        after: Duration,
    },
    /// The plot can't be drawn.
    #[error("the plot can't be drawn: {0}")]
    Plot(String),
}

impl Failure {
    /// For [`Result::map_err`].
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
