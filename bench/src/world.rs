//! The agents of the scenes. Each is started when a scene first needs it.

use std::cell::OnceCell;

use real_agent::{Agent, Cluster};

use crate::failure::Failure;
use crate::ours::Contend;

/// An agent counts connections per address, and all hosts of a scene have the same one. With the
/// default of 200 connections per client it would refuse what would be four hundred machines.
const MANY_CONNECTIONS: &str = "limits { http_max_conns_per_client = 10000 }";

/// The agents, none of which is running yet.
#[derive(Debug, Default)]
pub(crate) struct World {
    plain: OnceCell<Agent>,
    raised: OnceCell<Agent>,
    cluster: OnceCell<Cluster>,
}

impl World {
    /// A development agent at its default limits.
    ///
    /// # Errors
    /// [`Failure::Start`].
    pub(crate) fn agent(&self) -> Result<&Agent, Failure> {
        once(&self.plain, || Ok(Agent::start()?))
    }

    /// `contend` on it.
    ///
    /// # Errors
    /// [`Failure::Start`], [`Failure::System`].
    pub(crate) fn contend(&self) -> Result<Contend, Failure> {
        Contend::at(&self.agent()?.url())
    }

    /// `contend` on a development agent that takes any number of connections.
    ///
    /// # Errors
    /// [`Failure::Start`], [`Failure::System`].
    pub(crate) fn contend_from_many(&self) -> Result<Contend, Failure> {
        Contend::at(&self.raised()?.url())
    }

    /// A development agent that takes any number of connections.
    ///
    /// # Errors
    /// [`Failure::Start`].
    pub(crate) fn raised(&self) -> Result<&Agent, Failure> {
        let start = || Ok(Agent::builder().config(MANY_CONNECTIONS).start()?);
        once(&self.raised, start)
    }

    /// `contend` on any one of three servers.
    ///
    /// # Errors
    /// [`Failure::Start`], [`Failure::System`].
    pub(crate) fn contend_on_cluster(&self) -> Result<Contend, Failure> {
        let cluster = once(&self.cluster, || Ok(Cluster::start()?))?;
        Contend::at(&cluster.server(0).url())
    }
}

fn once<T>(cell: &OnceCell<T>, start: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
    if let Some(started) = cell.get() {
        return Ok(started);
    }
    let started = start()?;
    Ok(cell.get_or_init(|| started))
}
