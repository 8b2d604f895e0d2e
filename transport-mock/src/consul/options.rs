//! The parameters of all reads: consistency, and how long to block.

use core::time::Duration;

use semaphore_core::adapter::Response;

use super::answer;
use super::go;
use super::limits::Errand;
use super::target::Query;

const DEFAULT_WAIT: Duration = Duration::from_secs(5 * 60);
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);

/// How a read should be answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// Any server may answer, with or without a leader.
    pub(super) stale: bool,
    /// The answer should have a higher index than this; 0 does not block.
    pub(super) min_index: u64,
    wait: Option<Duration>,
}

impl Options {
    /// Reads the options from the query. The error is the answer to a bad one.
    pub(super) fn parse(query: &Query) -> Result<Self, Response> {
        let stale = query.has("stale");
        if stale && query.has("consistent") {
            return Err(answer::bad_request(
                "Cannot specify ?stale with ?consistent, conflicting semantics.",
            ));
        }
        let wait = match query.filled("wait") {
            None => None,
            Some(wait) => {
                let nanos = go::parse_duration(wait)
                    .map_err(|_| answer::bad_request("Invalid wait time"))?;
                u64::try_from(nanos).ok().map(Duration::from_nanos)
            }
        };
        let min_index = match query.filled("index") {
            None => 0,
            Some(index) => {
                go::parse_uint(index).map_err(|_| answer::bad_request("Invalid index"))?
            }
        };
        Ok(Self {
            stale,
            min_index,
            wait,
        })
    }

    /// What kind of work this is for the servers.
    pub(super) fn errand(&self) -> Errand {
        Errand::Read { stale: self.stale }
    }

    /// How long a blocking query waits, without the jitter that the agent adds.
    pub(super) fn wait(&self) -> Duration {
        match self.wait {
            None | Some(Duration::ZERO) => DEFAULT_WAIT,
            Some(wait) => wait.min(MAX_WAIT),
        }
    }
}
