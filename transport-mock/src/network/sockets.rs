//! The connections that an agent counts against a host's address beside those of the exchanges under way: those that
//! are kept open between requests, and those of blocking queries that were given up, until their wait is over.

use std::collections::BTreeMap;

use semaphore_core::api::ListKeys;
use semaphore_core::{Instant, Lane, Request};

use super::{Call, Host};

/// Names the connections of one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pool(u64);

/// A connection that is kept open.
pub(super) type Socket = (Host, Pool, Lane);

#[derive(Debug, Default)]
pub(super) struct Sockets {
    pools: u64,
    /// Until when the client keeps them.
    idle: BTreeMap<Socket, Instant>,
    busy: BTreeMap<Call, Socket>,
    /// Exchanges that have no connection: it was refused, which their client has yet to learn.
    refused: BTreeMap<Call, Host>,
    /// Until when the agent counts them.
    given_up: Vec<(Host, Instant)>,
}

impl Sockets {
    pub(super) fn new_pool(&mut self) -> Pool {
        self.pools += 1;
        Pool(self.pools)
    }

    /// How many there are of this host, of whose exchanges so many are under way.
    pub(super) fn count(&mut self, now: Instant, host: Host, exchanges: usize) -> usize {
        self.idle.retain(|_, until| *until > now);
        self.given_up.retain(|(_, until)| *until > now);
        let idle = self.idle.keys().filter(|(of, ..)| *of == host).count();
        let given_up = self.given_up.iter().filter(|(of, _)| *of == host).count();
        let refused = self.refused.values().filter(|of| **of == host).count();
        exchanges + idle + given_up - refused
    }

    /// A request goes out on this connection. Says whether it was open.
    pub(super) fn take(&mut self, now: Instant, call: Call, socket: Socket) -> bool {
        let was_open = self.idle.remove(&socket).is_some_and(|until| until > now);
        self.busy.insert(call, socket);
        was_open
    }

    /// There is no connection for this exchange.
    pub(super) fn refuse(&mut self, call: Call, host: Host) {
        self.refused.insert(call, host);
    }

    /// The exchange has ended; with an answer the connection stays open.
    pub(super) fn ended(&mut self, now: Instant, call: Call, is_answered: bool) {
        self.refused.remove(&call);
        if let Some(socket) = self.busy.remove(&call)
            && is_answered
        {
            let (.., lane) = socket;
            self.idle.insert(socket, now + lane.idle_time());
        }
    }

    pub(super) fn close(&mut self, socket: Socket) {
        self.idle.remove(&socket);
    }

    /// An agent goes on with a blocking query that nobody waits for.
    pub(super) fn given_up(&mut self, host: Host, request: &Request, sent_at: Instant) {
        if let Some(wait) = request.is_long_poll().then(|| request.wait()).flatten() {
            self.given_up
                .push((host, sent_at + ListKeys::longest(wait)));
        }
    }
}
