//! One request on its way through the agent.

use semaphore_core::adapter::{Instant, Method, Response};

use super::acl::Authority;
use super::answer;
use super::blocking::Read;
use super::options::Options;
use super::target::Target;

/// A request, taken apart.
pub(super) struct Call<'a> {
    pub(super) now: Instant,
    /// The node of the agent that was asked.
    pub(super) node: &'a str,
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) body: &'a [u8],
    pub(super) token: Option<String>,
    pub(super) pretty: bool,
}

impl Call<'_> {
    /// Refuses a datacenter that is not the agent's own.
    pub(super) fn check_datacenter(&self) -> Result<(), Response> {
        match self.target.query.filled("dc") {
            Some(other) if other != super::DATACENTER => {
                Err(answer::failure("No path to datacenter"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses two of these parameters at once.
    pub(super) fn refuse_conflicting(&self, parameters: &[&str]) -> Result<(), Response> {
        let query = &self.target.query;
        let given = parameters.iter().filter(|name| query.has(name)).count();
        if given > 1 {
            let text = format!("Conflicting flags: {}", query.encode());
            return Err(answer::bad_request(text));
        }
        Ok(())
    }
}

/// What becomes of a request that was understood.
pub(super) enum Outcome {
    /// It is answered.
    Ready(Response),
    /// It reads, and may have to wait.
    Read {
        read: Read,
        options: Options,
        authority: Authority,
        pretty: bool,
    },
}
