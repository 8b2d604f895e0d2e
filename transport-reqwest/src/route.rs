//! How a lane's client finds a server: to which addresses the agent's name resolves, and in which
//! order they are tried.
//!
//! hyper tries one address after the other, and gives each an equal part of the connect timeout. It
//! does not say which ones failed. That is deduced from the order and from the address that
//! answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use semaphore_core::adapter::{Instant, Response, Servers};

/// How one lane reaches the agent.
pub(crate) struct Route {
    host: Arc<Host>,
    pub(crate) servers: Arc<Servers>,
    trail: Mutex<Trail>,
}

/// The agent's host. Its certificate may be checked for another name.
pub(crate) struct Host {
    pub(crate) name: String,
    #[cfg(test)]
    pub(crate) lookup: Option<transport_conformance::Lookup>,
}

#[derive(Default)]
struct Trail {
    /// The addresses of the connection that is being opened, in the order in which they are tried.
    tried: Vec<IpAddr>,
    /// The server of the open connection.
    peer: Option<IpAddr>,
}

impl Route {
    pub(crate) fn new(host: Arc<Host>, servers: Arc<Servers>) -> Self {
        let trail = Mutex::default();
        Self {
            host,
            servers,
            trail,
        }
    }

    /// Whether the open connection should be closed instead of used.
    pub(crate) fn is_left(&self, now: Instant) -> bool {
        let peer = self.trail().peer;
        peer.is_some_and(|peer| self.servers.is_left(now, peer))
    }

    /// The head of an answer came from this server.
    pub(crate) fn connected(&self, now: Instant, peer: IpAddr) {
        let mut trail = self.trail();
        let tried = std::mem::take(&mut trail.tried);
        trail.peer = Some(peer);
        drop(trail);
        if tried.contains(&peer) {
            let before = tried.into_iter().take_while(|it| *it != peer);
            before.for_each(|it| self.servers.failed(now, it));
        }
    }

    /// An answer has come.
    pub(crate) fn answered(&self, now: Instant, response: &Response) {
        let peer = self.trail().peer;
        if let Some(peer) = peer {
            self.servers.answered(now, peer, response);
        }
    }

    /// No connection could be opened, or the open one is gone.
    pub(crate) fn failed(&self, now: Instant) {
        let mut trail = self.trail();
        let first = std::mem::take(&mut trail.tried).first().copied();
        let peer = trail.peer.take();
        drop(trail);
        if let Some(server) = first.or(peer) {
            self.servers.failed(now, server);
        }
    }

    fn trail(&self) -> MutexGuard<'_, Trail> {
        self.trail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a client resolve through the route.
#[derive(Clone)]
pub(crate) struct ByRoute(pub(crate) Arc<Route>);

impl Resolve for ByRoute {
    fn resolve(&self, _: Name) -> Resolving {
        let route = Arc::clone(&self.0);
        Box::pin(async move {
            let mut found = route.host.addresses().await?;
            route.servers.order(&mut found);
            route.trail().tried = found.iter().map(SocketAddr::ip).collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl Host {
    /// reqwest replaces port 0 by the URL's.
    async fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        #[cfg(test)]
        if let Some(lookup) = &self.lookup {
            return Ok(lookup.addresses(0));
        }
        let found = tokio::net::lookup_host((self.name.as_str(), 0)).await?;
        Ok(found.collect())
    }
}
