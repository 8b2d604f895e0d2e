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
    /// Until when the agent counts them.
    given_up: Vec<(Host, Instant)>,
}

impl Sockets {
    pub(super) fn new_pool(&mut self) -> Pool {
        self.pools += 1;
        Pool(self.pools)
    }

    /// How many there are of this host.
    pub(super) fn count(&mut self, now: Instant, host: Host) -> usize {
        self.idle.retain(|_, until| *until > now);
        self.given_up.retain(|(_, until)| *until > now);
        let idle = self.idle.keys().filter(|(of, ..)| *of == host).count();
        let given_up = self.given_up.iter().filter(|(of, _)| *of == host).count();
        idle + given_up
    }

    /// A request goes out on this connection, which is open no longer by itself.
    pub(super) fn take(&mut self, call: Call, socket: Socket) {
        self.idle.remove(&socket);
        self.busy.insert(call, socket);
    }

    /// The exchange has ended; with an answer the connection stays open.
    pub(super) fn ended(&mut self, now: Instant, call: Call, is_answered: bool) {
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
            self.given_up.push((host, sent_at + ListKeys::longest(wait)));
        }
    }
}
