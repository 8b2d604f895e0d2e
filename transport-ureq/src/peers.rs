//! The servers that the agent's name resolves to, and which of them a worker's connection goes to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use semaphore_core::adapter::{Instant, Response, Servers, TransportErrorKind};
use ureq::Error;
use ureq::unversioned::transport::{Buffers, NextTimeout, Transport};

/// What all workers of a transport know about the servers, with a separate clock.
pub(crate) struct Peers {
    servers: Servers,
    origin: boot_time::Instant,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            servers: Servers::new(),
            origin: boot_time::Instant::now(),
        }
    }

    pub(crate) fn order(&self, found: &mut [SocketAddr]) {
        self.servers.order(found);
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.count()
    }

    pub(crate) fn failed(&self, server: IpAddr) {
        self.servers.failed(self.now(), server);
    }

    pub(crate) fn answered(&self, server: IpAddr, response: &Response) {
        self.servers.answered(self.now(), server, response);
    }

    pub(crate) fn refused_by_tls(&self) -> TransportErrorKind {
        self.servers.refused_by_tls(self.now())
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_origin(boot_time::Instant::now().duration_since(self.origin))
    }
}

/// The server of one worker's connection, if it has one.
#[derive(Default)]
pub(crate) struct Peer(Mutex<Option<IpAddr>>);

impl Peer {
    pub(crate) fn get(&self) -> Option<IpAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, server: Option<IpAddr>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }
}

/// A connection that is closed if its server should be left for another one.
pub(crate) struct Reached<T> {
    pub(crate) transport: T,
    pub(crate) peers: Arc<Peers>,
    /// `None` for a Unix socket.
    pub(crate) server: Option<IpAddr>,
}

impl<T: Transport> Transport for Reached<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.transport.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.transport.await_input(timeout)
    }

    /// ureq asks this before it uses the connection again.
    fn is_open(&mut self) -> bool {
        let Peers { servers, .. } = &*self.peers;
        let now = self.peers.now();
        let is_left = self.server.is_some_and(|it| servers.is_left(now, it));
        !is_left && self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}

impl<T> fmt::Debug for Reached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").finish_non_exhaustive()
    }
}
