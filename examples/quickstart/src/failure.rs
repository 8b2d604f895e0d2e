//! How the program fails, and with which exit code.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use semaphore_core::adapter::TransportError;
use semaphore_core::{BuildError, Error};

use crate::say::complain;

/// Why the program failed. `Display` includes the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{_0}; see --help")]
    Usage(#[source] lexopt::Error),
    #[error("the environment can't be used: {}", told(_0))]
    Environment(#[source] BuildError),
    #[error("no agent answers at {address}: {source}")]
    Unreachable {
        address: String,
        #[source]
        source: TransportError,
    },
    #[error("the server at {address} is not a Consul agent that is ready: status {status}")]
    NotReady { address: String, status: u16 },
    #[error("the semaphore failed: {_0}")]
    Semaphore(#[from] Error),
    #[error("{} can't be written: {source}", path.display())]
    Picture {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Failure {
    /// Prints it and returns the exit code: 2 for bad input, before anything was sent, and 1 for
    /// everything else.
    pub(crate) fn report(&self) -> ExitCode {
        complain(format_args!("error: {self}"));
        ExitCode::from(match self {
            Self::Usage(_) | Self::Environment(_) | Self::Semaphore(Error::InvalidInput { .. }) => {
                2
            }
            _ => 1,
        })
    }
}

/// With its causes, if its text does not have them.
fn told(error: &BuildError) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_told = cause.to_string();
        if !told.ends_with(&cause_told) {
            told = format!("{told}: {cause_told}");
        }
        next = cause.source();
    }
    told
}
