//! A process with one client: its semaphores share their sessions.
//!
//! All its requests use one transport. It passes each request to the wire of its prefix, so the
//! sender is known. Requests about sessions belong to all semaphores, and use the wire of the
//! host's own prefix.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use semaphore_core::adapter::Transport;
use semaphore_core::sans_io::{Request, Response, TransportError};
use semaphore_core::{Client, Error};
use transport_mock::{MockClient, MockProcess, PooledClient};

use super::Run;
use super::transaction::Transaction;
use super::wire::{Line, Looks, Wire};
use crate::plan::{HostPlan, Plan};

/// The wires of one process.
struct Wires {
    usual: Wire,
    /// The wires of its further prefixes and of its own semaphores, by the beginning of their keys.
    others: BTreeMap<String, Wire>,
}

impl Wires {
    fn of(&self, request: &Request) -> &Wire {
        let path = request.target().split('?').next().unwrap_or_default();
        let other = match Transaction::of(request) {
            Some(transaction) => transaction.keys().find_map(|key| self.other(key)),
            None => path.strip_prefix("/v1/kv/").and_then(|key| self.other(key)),
        };
        other.unwrap_or(&self.usual)
    }

    fn other(&self, key: &str) -> Option<&Wire> {
        let (prefix, _) = key.rsplit_once('/')?;
        self.others.get(prefix)
    }
}

#[async_trait]
impl Transport for Wires {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.of(&request).send(request).await
    }
}

impl Run<'_> {
    /// The client of a process, if it uses one.
    pub(super) fn client(
        &self,
        host: &HostPlan,
        line: &Line,
        process: &MockProcess,
        truth: &MockClient,
        pool: Option<&PooledClient>,
    ) -> Result<Option<Client>, Error> {
        if !host.client {
            return Ok(None);
        }
        let wire = |looks| self.wire(host, line, process, truth, looks, pool);
        let own = host.own_prefixes().map(|number| {
            let wire = Wire {
                place: number,
                ..wire(Looks::Elsewhere)
            };
            (Plan::prefix(number), wire)
        });
        let further = host.also.iter().map(|it| {
            let wire = self.towards(it.prefix, wire(Looks::Record));
            (Plan::prefix(it.prefix), wire)
        });
        let wires = Wires {
            usual: wire(Looks::Record),
            others: own.chain(further).collect(),
        };
        let mut builder = Client::builder().ttl(host.ttl);
        if self.plan.access_control.is_some() {
            builder = builder.token(format!("node-{}", host.number));
        }
        if let Some(most) = host.own_polls {
            builder = builder.own_polls(most);
        }
        let connected = builder.connect_parts(Arc::new(wires), Arc::new(process.clone()));
        connected.map(Some)
    }
}
