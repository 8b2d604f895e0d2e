//! How a program fails, and with which exit code.

use std::error::Error as StdError;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use semaphore_core::Error;
use semaphore_core::adapter::AgentUrl;
use semaphore_core::sans_io::TransportError;

use crate::complain;

/// Why a program could not do what it was started for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A variable of the environment can't be understood. Mend it; nothing was sent.
    #[error("the environment can't be used")]
    Environment(#[source] Box<dyn StdError + Send + Sync>),
    /// The backend can't be built from what the environment says. Nothing was sent.
    #[error("the backend can't be built")]
    Backend(#[source] Box<dyn StdError + Send + Sync>),
    /// The Consul in memory could not be started.
    #[error("the Consul in memory can't be started")]
    InMemory(#[source] io::Error),
    /// The system gives no threads to the runtime, or to a contender.
    #[error("a thread can't be started")]
    Thread(#[source] io::Error),
    /// Nobody answers at the agent's address. Start an agent there, or unset `CONSUL_HTTP_ADDR`.
    #[error("no agent answers at {url}")]
    Unreachable {
        /// The address.
        url: AgentUrl,
        /// Why not.
        #[source]
        source: TransportError,
    },
    /// Somebody answers at the agent's address, but not as Consul does.
    #[error("what answers at {url} is no Consul agent that is ready: status {status}")]
    NotReady {
        /// The address.
        url: AgentUrl,
        /// What it answered to a question for the leader.
        status: u16,
    },
    /// An operation on the semaphore failed.
    #[error("the semaphore failed")]
    Semaphore(#[source] Error),
    /// A campaign or a leadership failed for good.
    #[error("the election failed")]
    Election(#[source] Error),
    /// The system does not tell of Ctrl-C.
    #[error("Ctrl-C can't be waited for")]
    Signal(#[source] io::Error),
    /// The result can't be written as JSON.
    #[error("the result can't be written as JSON")]
    Json(#[source] serde_json::Error),
    /// The holds can't be written to the file that was named for them.
    #[error("the holds can't be written down")]
    Holds(#[source] io::Error),
    /// Not all contenders came to an end in time.
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
    /// Prints it and its causes, and says what to exit with: 2 for what the user gave, before
    /// anything was sent, 1 for everything else.
    pub fn report(&self) -> ExitCode {
        complain!("error: {}", with_causes(self));
        ExitCode::from(if self.is_bad_input() { 2 } else { 1 })
    }

    fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Environment(_)
                | Self::Backend(_)
                | Self::Semaphore(Error::InvalidInput(_))
                | Self::Election(Error::InvalidInput(_))
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Semaphore(error)
    }
}

/// An error and its causes in one line.
pub fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use semaphore_core::InvalidInput;

    use super::*;

    #[test]
    fn an_error_is_told_with_all_its_causes() {
        let failure = Failure::from(Error::from(InvalidInput::LimitZero));
        assert_eq!(
            with_causes(&failure),
            "the semaphore failed: invalid input: the limit is 0; a semaphore has at least one slot"
        );
    }

    #[test]
    fn only_what_the_user_gave_exits_with_two() {
        assert!(Failure::from(Error::from(InvalidInput::LimitZero)).is_bad_input());
        assert!(!Failure::from(Error::Closed).is_bad_input());
    }
}
