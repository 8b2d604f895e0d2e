//! The connections that an agent counts for a host besides those of exchanges under way: idle open
//! connections, and those of blocking queries that were given up, until their wait is over.

use std::collections::BTreeMap;

use semaphore_core::adapter::{Instant, Lane};

use super::{Call, Host};

/// Identifies the connections of one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pool(u64);

/// A connection that is kept open.
pub(crate) type Socket = (Host, Pool, Lane);

#[derive(Debug, Default)]
pub(super) struct Sockets {
    pools: u64,
    /// Until when the client keeps each open.
    idle: BTreeMap<Socket, Instant>,
    busy: BTreeMap<Call, Socket>,
    /// Exchanges whose connection was refused. Their clients don't know it yet.
    refused: BTreeMap<Call, Host>,
    /// Until when the agent counts each, and its transport.
    given_up: Vec<(Host, Option<Pool>, Instant)>,
    /// The most connections of each transport so far.
    peaks: BTreeMap<Pool, usize>,
}

impl Sockets {
    pub(super) fn new_pool(&mut self) -> Pool {
        self.pools += 1;
        Pool(self.pools)
    }

    /// How many connections this host has. `exchanges` is the number of its exchanges under way.
    pub(super) fn count(&mut self, now: Instant, host: Host, exchanges: usize) -> usize {
        self.idle.retain(|_, until| *until > now);
        self.given_up.retain(|(.., until)| *until > now);
        let idle = self.idle.keys().filter(|(of, ..)| *of == host).count();
        let given_up = self.given_up.iter().filter(|(of, ..)| *of == host).count();
        let refused = self.refused.values().filter(|of| **of == host).count();
        exchanges + idle + given_up - refused
    }

    /// A request is sent on this connection. Returns whether it was open.
    pub(super) fn take(&mut self, now: Instant, call: Call, socket: Socket) -> bool {
        let was_open = self.idle.remove(&socket).is_some_and(|until| until > now);
        self.busy.insert(call, socket);
        was_open
    }

    /// The exchange has its connection. Updates the peak of its transport.
    pub(super) fn connected(&mut self, call: Call) {
        let Some((_, pool, _)) = self.busy.get(&call).copied() else {
            return;
        };
        let refused = self.refused.keys();
        let refused = refused.filter(|it| self.busy.get(it).is_some_and(|(_, of, _)| *of == pool));
        let busy = self.busy.values().filter(|(_, of, _)| *of == pool);
        let idle = self.idle.keys().filter(|(_, of, _)| *of == pool);
        let given_up = self.given_up.iter();
        let given_up = given_up.filter(|(_, of, _)| *of == Some(pool));
        let open = busy.count() - refused.count() + idle.count() + given_up.count();
        let peak = self.peaks.entry(pool).or_default();
        *peak = (*peak).max(open);
    }

    /// The most connections that a transport has had at once.
    pub(super) fn peak(&self, pool: Pool) -> usize {
        self.peaks.get(&pool).copied().unwrap_or_default()
    }

    /// A transport is gone. The agent keeps serving its blocking queries.
    pub(super) fn close_pool(&mut self, pool: Pool) {
        self.idle.retain(|(_, of, _), _| *of != pool);
    }

    /// There is no connection for this exchange.
    pub(super) fn refuse(&mut self, call: Call, host: Host) {
        self.refused.insert(call, host);
    }

    /// The exchange has ended. If it was answered, the connection stays open. Returns its
    /// transport.
    pub(super) fn ended(&mut self, now: Instant, call: Call, is_answered: bool) -> Option<Pool> {
        self.refused.remove(&call);
        let socket = self.busy.remove(&call)?;
        let (_, pool, lane) = socket;
        if is_answered {
            self.idle.insert(socket, now + lane.idle_time());
        }
        Some(pool)
    }

    pub(super) fn close(&mut self, socket: Socket) {
        self.idle.remove(&socket);
    }

    /// An agent keeps serving a request that nobody waits for, until this time.
    pub(super) fn given_up(&mut self, host: Host, pool: Option<Pool>, until: Option<Instant>) {
        self.given_up.extend(until.map(|until| (host, pool, until)));
    }
}
