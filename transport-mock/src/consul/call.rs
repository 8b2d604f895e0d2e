//! One request on its way through the agent.

use semaphore_core::adapter::{Instant, Method, Response};

use super::acl::Authority;
use super::answer;
use super::blocking::Read;
use super::options::Options;
use super::profile::{Profile, Release};
use super::target::Target;
use super::tenancy::Tenancy;

/// A parsed request.
pub(super) struct Call<'a> {
    pub(super) now: Instant,
    /// The node of the agent that was asked.
    pub(super) node: &'a str,
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) body: &'a [u8],
    pub(super) token: Option<String>,
    pub(super) pretty: bool,
    pub(super) profile: Profile,
}

impl Call<'_> {
    /// What the agent's release does.
    pub(super) fn release(&self) -> &'static Release {
        self.profile.rules()
    }

    /// The partition and namespace in the query, or the answer of an agent that knows none.
    pub(super) fn tenancy(&self) -> Result<Tenancy, Response> {
        Tenancy::asked(self.profile, &self.target.query)
    }

    /// Refuses another datacenter than the agent's.
    pub(super) fn check_datacenter(&self) -> Result<(), Response> {
        match self.target.query.filled("dc") {
            Some(other) if other != super::DATACENTER => {
                Err(answer::failure("No path to datacenter"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a request with two of these parameters.
    pub(super) fn refuse_conflicting(&self, parameters: &[&str]) -> Result<(), Response> {
        let query = &self.target.query;
        let given: Vec<&str> = (parameters.iter().copied())
            .filter(|name| query.has(name))
            .collect();
        if given.len() > 1 {
            let text = format!("Conflicting flags: {}", given.join(", "));
            return Err(answer::bad_request(text));
        }
        Ok(())
    }
}

/// What happens to a valid request.
pub(super) enum Outcome {
    /// It is answered.
    Ready(Response),
    /// It reads, and may have to wait.
    Read(Asked),
}

/// What a read asks for, and how to answer it.
pub(super) struct Asked {
    pub(super) tenancy: Tenancy,
    pub(super) read: Read,
    pub(super) options: Options,
    pub(super) authority: Authority,
    pub(super) pretty: bool,
}
