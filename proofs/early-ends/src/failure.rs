//! Why a row could not be measured.

use std::io;

use real_agent::StartError;

/// Why a row could not be measured. It says nothing about the semaphore.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the cluster failed: {0}")]
    Cluster(#[from] StartError),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    #[error("waited too long for {0}; it said: {1}")]
    Late(&'static str, String),
    #[error("the server was not reaped while the row was measured: nothing ended early")]
    NotReaped,
}

impl Failure {
    pub(crate) fn system(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System(doing, error)
    }
}
