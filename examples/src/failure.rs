//! How a program fails, and with which exit code.

use std::error::Error as StdError;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use semaphore_core::Error;
use semaphore_core::adapter::AgentUrl;
use semaphore_core::sans_io::TransportError;

use crate::complain;

/// Why a program failed. `Display` includes the causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A variable of the environment can't be understood. Correct it; nothing was sent.
    #[error("the environment can't be used: {_0}")]
    Environment(#[source] Box<dyn StdError + Send + Sync>),
    /// The backend can't be built with the environment's settings. Nothing was sent.
    #[error("the backend can't be built: {_0}")]
    Backend(#[source] Box<dyn StdError + Send + Sync>),
    /// The Consul in memory could not be started.
    #[error("the Consul in memory can't be started: {_0}")]
    InMemory(#[source] io::Error),
    /// The system gives no threads for the runtime or a contender.
    #[error("a thread can't be started: {_0}")]
    Thread(#[source] io::Error),
    /// Nobody answers at the agent's address. Start an agent there, or unset `CONSUL_HTTP_ADDR`.
    #[error("no agent answers at {url}: {source}")]
    Unreachable {
        /// The address.
        url: AgentUrl,
        /// Why not.
        #[source]
        source: TransportError,
    },
    /// Something answers at the agent's address, but not as Consul does.
    #[error("the server at {url} is not a Consul agent that is ready: status {status}")]
    NotReady {
        /// The address.
        url: AgentUrl,
        /// Its status for the question about the leader.
        status: u16,
    },
    /// An operation on the semaphore failed.
    #[error("the semaphore failed: {_0}")]
    Semaphore(#[source] Error),
    /// A campaign or a leadership failed permanently.
    #[error("the election failed: {_0}")]
    Election(#[source] Error),
    /// The system does not report Ctrl-C.
    #[error("Ctrl-C can't be waited for: {_0}")]
    Signal(#[source] io::Error),
    /// The result can't be written as JSON.
    #[error("the result can't be written as JSON: {_0}")]
    Json(#[source] serde_json::Error),
    /// The holds can't be written to the given file.
    #[error("the holds can't be written down: {_0}")]
    Holds(#[source] io::Error),
    /// Not all contenders were done in time.
    #[error("{finished} of {contenders} contenders were done after {after:?}")]
    Late {
        /// How many were done.
        finished: usize,
        /// How many there were.
        contenders: usize,
        /// How long they had.
        after: Duration,
    },
}

impl Failure {
    /// Prints it and returns the exit code: 2 for bad input, before anything was sent, and 1 for
    /// everything else.
    pub fn report(&self) -> ExitCode {
        complain!("error: {}", self);
        ExitCode::from(if self.is_bad_input() { 2 } else { 1 })
    }

    fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Environment(_)
                | Self::Backend(_)
                | Self::Semaphore(Error::InvalidInput { .. })
                | Self::Election(Error::InvalidInput { .. })
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Semaphore(error)
    }
}

#[cfg(test)]
mod tests {
    use semaphore_core::InvalidInput;
    use semaphore_core::error::ClosedBy;

    use super::*;

    #[test]
    fn an_error_is_told_with_all_its_causes() {
        let failure = Failure::from(Error::from(InvalidInput::LimitZero));
        assert_eq!(
            failure.to_string(),
            "the semaphore failed: invalid input: the limit is 0; a semaphore has at least one slot"
        );
    }

    #[test]
    fn only_what_the_user_gave_exits_with_two() {
        assert!(Failure::from(Error::from(InvalidInput::LimitZero)).is_bad_input());
        assert!(!Failure::from(Error::from(ClosedBy::Owner)).is_bad_input());
    }
}
