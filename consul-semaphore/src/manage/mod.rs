//! What operators can change. Each command asks before it takes something from somebody.

mod destroy;
mod evict;
mod resize;

pub(crate) use destroy::{DestroyOptions, destroy};
pub(crate) use evict::{EvictOptions, evict};
pub(crate) use resize::{ResizeOptions, resize};

use transport_ureq::Semaphore;

use crate::agent::Agent;
use crate::failure::Failure;

/// A handle for managing the semaphore. It never contends, so its limit does not matter.
fn semaphore(agent: &Agent, prefix: &str) -> Result<Semaphore, Failure> {
    let builder = Semaphore::builder(prefix, 1).scope(agent.scope.clone());
    Ok(builder.connect(agent.transport.clone())?)
}
