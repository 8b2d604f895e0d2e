//! Agents that lag behind: their hosts read old state until they catch up.

use std::collections::BTreeMap;

use semaphore_core::adapter::{Instant, Method, Request};

use super::behind::Behind;
use super::{Call, Host, Network};
use crate::consul::{Consul, Exchange};

/// The server that answers a request: the leader, a leader that has not applied its whole log, or a
/// host's lagging agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Leader,
    Behind,
    Lagging(Host),
}

/// The lagging agents, by the host that reads from them.
pub(super) type Lagging = BTreeMap<Host, Consul>;

impl Network {
    /// This host's agent keeps its present state from now on.
    pub(crate) fn lag(&mut self, host: Host) {
        self.catch_up(host);
        self.note_host(host, format_args!("reads from an agent that lags behind"));
        self.lagging.insert(host, self.consul.lagging());
    }

    /// This host's agent gets the leader's state. Blocking queries there read again.
    pub(crate) fn catch_up(&mut self, host: Host) {
        self.rejoin(host);
        if self.lagging.remove(&host).is_none() {
            return;
        }
        self.note_host(host, format_args!("reads from an agent that has caught up"));
        self.ask_again(Server::Lagging(host));
    }

    /// Requests that wait at a server that is gone are passed to the leader.
    pub(super) fn ask_again(&mut self, server: Server) {
        let mut waiting: Vec<Call> = Vec::new();
        self.exchanges.retain(|(at, _), call| {
            let is_there = *at == server;
            if is_there {
                waiting.push(*call);
            }
            !is_there
        });
        for call in waiting {
            let end = self.servers.get(&call);
            if let Some((host, request)) = end.map(|end| (end.host, end.request.clone())) {
                let exchange = self.submit_to_leader(host, &request);
                self.expect(call, exchange);
            }
        }
        self.collect_answers();
    }

    /// Passes a request to the server that answers it.
    pub(super) fn submit(&mut self, host: Host, request: &Request) -> (Server, Exchange) {
        if let Some(exchange) = self.submit_to_former(host, request) {
            return exchange;
        }
        match self.lagging.get_mut(&host) {
            Some(agent) if may_be_stale(request) => {
                let node = self.hosts[host.0].agent.as_deref();
                let exchange = submit_to(agent, self.now, node, request);
                (Server::Lagging(host), exchange)
            }
            _ => self.submit_to_leader(host, request),
        }
    }

    /// Whether the host's lagging agent answers this.
    pub(super) fn is_for_lagging(&self, host: Host, request: &Request) -> bool {
        self.lagging.contains_key(&host) && may_be_stale(request)
    }

    pub(super) fn abandon(&mut self, (server, exchange): (Server, Exchange)) {
        match server {
            Server::Leader => self.consul.abandon(exchange),
            Server::Behind => {
                if let Some(behind) = &mut self.behind {
                    behind.leader_mut().abandon(exchange);
                }
            }
            Server::Lagging(host) => {
                if let Some(agent) = self.lagging.get_mut(&host) {
                    agent.abandon(exchange);
                }
            }
        }
    }

    /// When an agent has something to do.
    pub(super) fn agents_due(&self) -> Option<Instant> {
        self.agents().filter_map(Consul::poll_timeout).min()
    }

    fn agents(&self) -> impl Iterator<Item = &Consul> {
        let behind = self.behind.as_ref().map(Behind::leader);
        [&self.consul]
            .into_iter()
            .chain(behind)
            .chain(self.lagging.values())
    }
}

/// Passes a request to Consul, through the agent on this node.
pub(super) fn submit_to(
    consul: &mut Consul,
    now: Instant,
    node: Option<&str>,
    request: &Request,
) -> Exchange {
    match node {
        Some(node) => consul.submit_through(now, node, request),
        None => consul.submit(now, request),
    }
}

pub(super) fn may_be_stale(request: &Request) -> bool {
    let query = request.target().split_once('?').map_or("", |(_, it)| it);
    request.method() == Method::Get && query.split('&').all(|pair| pair != "consistent")
}
