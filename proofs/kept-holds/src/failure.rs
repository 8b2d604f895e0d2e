//! Why nothing was measured.

use std::io;

use real_agent::StartError;

/// Why nothing was measured. It says nothing about the semaphore.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the agents failed: {0}")]
    Agents(#[from] StartError),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    #[error("waited too long for {0}")]
    Late(&'static str),
    #[error("the report can't be read: {0:?}")]
    Report(String),
    #[error("a hold was over before the fault was")]
    TooShort,
    #[error("the fault was not seen to strike: {0}")]
    NotStruck(&'static str),
}

impl Failure {
    pub(crate) fn system(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System(doing, error)
    }
}
