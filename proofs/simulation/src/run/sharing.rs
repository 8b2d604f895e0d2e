//! Hosts that keep connections open and share them, and the checks of these connections. Also their
//! own semaphores, and those of hosts that use a client.

use std::sync::Arc;
use std::time::Duration;

use semaphore_core::adapter::{
    Instant, MOST_CONNECTIONS, Method, Request, Runtime as _, Transport as _,
};
use semaphore_core::{BuildError, Client, Election, Error, Semaphore};
use transport_mock::{MockClient, MockProcess, PooledClient, Task};

use super::contest::Contest;
use super::user::User;
use super::wire::{Line, Looks, Wire};
use super::{Judged, Run};
use crate::check::{Invariant, Violation};
use crate::history::Happening;
use crate::plan::{HostPlan, Place, Plan, TURN_REQUESTS};

/// A transport may leave at most this many abandoned requests to agents that hold them (PROMISES): 60
/// of any kind, and 40 more renewals.
const MOST_HELD: usize = 60 + 40;

/// Reads something again and again until the storm ends.
async fn read_on(pool: PooledClient, truth: MockClient, storm_end: Instant) {
    while truth.now() < storm_end {
        let read = Request::new(Method::Get, "/v1/kv/read").with_timeout(Duration::from_secs(10));
        let _ = pool.send(read).await;
        truth.sleep(Duration::from_millis(1)).await;
    }
}

impl Run<'_> {
    /// The transports of a process, if it shares connections. There, requests meet their troubles
    /// when they have a connection.
    pub(super) fn pools(
        &self,
        host: &HostPlan,
        line: &Line,
        process: &MockProcess,
        truth: &MockClient,
    ) -> Result<Vec<PooledClient>, BuildError> {
        let transports = host.shared.as_ref().map_or(0, |it| it.transports);
        let pools = (0..transports).map(|_| {
            let hazards = self.hazards(host, line, truth);
            let client = process.client().clone();
            client.pooled_into(MOST_CONNECTIONS, move |request| hazards.next_fault(request))
        });
        pools.collect()
    }

    /// Starts the users of the host's own semaphores.
    pub(super) fn start_own(
        &self,
        host: &HostPlan,
        line: &Line,
        process: &MockProcess,
        truth: &MockClient,
        pools: &[PooledClient],
        client: Option<&Client>,
    ) -> Vec<Task<Option<()>>> {
        let transports = u32::try_from(pools.len()).unwrap_or(u32::MAX);
        let explains_after = self.plan.queueing(host.number) * TURN_REQUESTS * transports;
        let readers = host.shared.as_ref().map_or(0, |it| it.readers);
        // Requests that wait behind the host's own reads have not failed.
        let is_explained = self.plan.is_peaceful() && readers == 0 && !pools.is_empty();
        let readers = pools.iter().take(1).flat_map(|pool| {
            let read = || read_on(pool.clone(), truth.clone(), self.rounds[0]);
            (0..readers).map(move |_| self.world.start(process.living(read())))
        });
        let readers: Vec<_> = readers.collect();
        let own = self.hosts.get(&host.number).map(|it| it.own.as_slice());
        let tasks = own
            .unwrap_or_default()
            .iter()
            .zip(host.own_prefixes())
            .enumerate()
            .filter_map(|(number, ((turns, next), prefix))| {
                let pool = pools.iter().cycle().nth(number);
                let wire = self.wire(host, line, process, truth, Looks::Elsewhere, pool);
                let contest = self.own_contest(host, prefix, wire, process, client);
                let user = User {
                    host: host.number,
                    prefix,
                    contest: contest.ok()?,
                    truth: truth.clone(),
                    book: self.book.clone(),
                    turns: Arc::clone(turns),
                    next: Arc::clone(next),
                    storm_end: self.rounds[0],
                    rounds: self.rounds,
                    explains_after: is_explained.then_some(explains_after),
                    stops_within: None,
                    lock_delay: Duration::ZERO,
                };
                Some(self.world.start(process.living(user.live())))
            });
        tasks.chain(readers).collect()
    }

    /// One slot, or one leader, that only this host wants. A new process removes what an earlier
    /// process has left.
    fn own_contest(
        &self,
        host: &HostPlan,
        prefix: usize,
        wire: Wire,
        process: &MockProcess,
        client: Option<&Client>,
    ) -> Result<Contest, Error> {
        if self.plan.place(prefix).is_election() {
            let lock_delay = match self.plan.place(host.prefix) {
                Place::Election { lock_delay } => lock_delay,
                Place::Semaphore => None,
            };
            let key = format!("{}/.lock", Plan::prefix(prefix));
            let builder = self.told_election(Election::builder(key), host, prefix, lock_delay);
            let connected = match client {
                Some(client) => builder.connect(client.clone()),
                None => builder.connect_parts(Arc::new(wire), Arc::new(process.clone())),
            };
            return connected.map(Contest::Election);
        }
        let builder = Semaphore::builder(Plan::prefix(prefix), 1);
        let mut builder = self.told(builder, host, prefix);
        if let (Some(delay), true) = (host.lock_delay, host.client) {
            builder = builder.lock_delay(delay);
        }
        let wire = Wire {
            place: prefix,
            ..wire
        };
        let connected = match client {
            Some(client) => builder.connect(client.clone()),
            None => builder.connect_parts(Arc::new(wire), Arc::new(process.clone())),
        };
        connected.map(Contest::Semaphore)
    }

    /// Asserts that no transport ever had more connections than it may.
    pub(super) fn judge_peaks(&self, number: usize) -> Judged {
        let pools = self.hosts.get(&number).map(|it| it.pools.as_slice());
        let peaks = pools.unwrap_or_default().iter();
        let peak = peaks.map(PooledClient::peak_connections).max();
        // Agents continue with requests that were given up while there was no leader.
        let held = self.plan.holding.map_or(0, |_| MOST_HELD);
        match peak {
            Some(peak) if peak > MOST_CONNECTIONS + held => Err(self.broken(
                format!("a transport of node-{number} had {peak} connections"),
                Invariant::L3,
            )),
            _ => Ok(()),
        }
    }

    /// If nothing goes wrong except refused connections, nothing may be lost.
    pub(super) fn judge_in_peace(&self, what: &Happening) -> Judged {
        match what {
            Happening::Lost { belief, reason } if self.plan.is_peaceful() => Err(self.broken(
                format!("{belief} is lost ({reason}), and nothing has gone wrong"),
                Invariant::L4,
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn broken(&self, what: String, invariant: Invariant) -> Violation {
        Violation {
            invariant,
            at: self.world.now(),
            what,
        }
    }
}
