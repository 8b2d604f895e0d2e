//! Why an agent did not start.

use std::io;

/// An agent or a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no Consul binary, and none could be fetched. The text says what to install.
    #[error("no Consul binary: {0}")]
    NoBinary(String),
    /// A file or a process could not be made.
    #[error("preparing an agent failed")]
    Io(#[from] io::Error),
    /// Consul ended at once, most likely because of its configuration.
    #[error("consul ended while starting, its log ends with:\n{log}")]
    Exited {
        /// The end of its log.
        log: String,
    },
    /// Consul runs, but was not ready in time.
    #[error("consul was not ready in time, its log ends with:\n{log}")]
    NotReady {
        /// The end of its log.
        log: String,
    },
    /// Nothing serves at the address of the shared agent.
    #[error("the shared agent, REAL_AGENT_SHARED={url}, does not serve")]
    SharedIsGone {
        /// Its address.
        url: String,
    },
    /// Again and again, other processes took the chosen ports.
    #[error("no free ports were found")]
    NoPorts,
}
