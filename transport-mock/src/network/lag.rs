//! Agents that lag behind: what their hosts read is old, until they catch up.

use std::collections::BTreeMap;

use semaphore_core::{Instant, Method, Request};

use super::{Call, Host, Network};
use crate::consul::{Consul, Exchange};

/// Who answers a request: the leader, or a host's own agent that lags behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Leader,
    Lagging(Host),
}

/// The agents that lag, by the host that reads from them.
pub(super) type Lagging = BTreeMap<Host, Consul>;

impl Network {
    /// The agent of this host stays as it is from now on.
    pub(crate) fn lag(&mut self, host: Host) {
        self.catch_up(host);
        self.note_host(host, format_args!("reads from an agent that lags behind"));
        self.lagging.insert(host, self.consul.lagging());
    }

    /// The agent of this host knows what the leader knows. Whoever waits there looks again.
    pub(crate) fn catch_up(&mut self, host: Host) {
        if self.lagging.remove(&host).is_none() {
            return;
        }
        self.note_host(host, format_args!("reads from an agent that has caught up"));
        let server = Server::Lagging(host);
        let waiting: Vec<Call> = self
            .exchanges
            .extract_if(.., |(at, _), _| *at == server)
            .map(|(_, call)| call)
            .collect();
        for call in waiting {
            if let Some(end) = self.servers.get_mut(&call) {
                let exchange = self.consul.submit(self.now, &end.request);
                end.exchange = Some((Server::Leader, exchange));
                self.exchanges.insert((Server::Leader, exchange), call);
            }
        }
        self.collect_answers();
    }

    /// Hands a request to whoever answers it.
    pub(super) fn submit(&mut self, host: Host, request: &Request) -> (Server, Exchange) {
        let lagging = self
            .lagging
            .get_mut(&host)
            .filter(|_| may_be_stale(request));
        match lagging {
            Some(agent) => (Server::Lagging(host), agent.submit(self.now, request)),
            None => (Server::Leader, self.consul.submit(self.now, request)),
        }
    }

    pub(super) fn abandon(&mut self, (server, exchange): (Server, Exchange)) {
        match server {
            Server::Leader => self.consul.abandon(exchange),
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
        [&self.consul].into_iter().chain(self.lagging.values())
    }
}

fn may_be_stale(request: &Request) -> bool {
    let query = request.target().split_once('?').map_or("", |(_, it)| it);
    request.method() == Method::Get && query.split('&').all(|pair| pair != "consistent")
}
