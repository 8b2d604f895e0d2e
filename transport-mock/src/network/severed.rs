//! Servers that are parted: agents on the smaller side, with the former leader, and their hosts.
//!
//! ```text
//!  while the former leader believes ──▶ renewals and reads in default mode: by its state of then
//!  when it has stepped down         ──▶ only `?stale` reads
//!  everything else                  ──▶ held, or 500 `No cluster leader`
//! ```
//! Polls under way stay at the former leader, which hears of no change. A renewal there is no entry of
//! any log: the other side's leader does not know of it.
//!
//! Source: Consul's documentation of consistency modes, and Raft: a leader steps down if it has not
//! heard from most servers for the lease's length, which is shorter than an election takes.

use semaphore_core::adapter::{Request, Response};

use super::lag::{Server, may_be_stale, submit_to};
use super::{Call, Host, Message, Network};
use crate::kind::RequestKind;

/// How a host's agent is cut off from most servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severed {
    /// Its leader has not noticed.
    Led,
    /// It knows no leader.
    Leaderless,
}

impl Network {
    /// This host's agent is on the smaller side from now on, with the former leader.
    pub(crate) fn sever(&mut self, host: Host) {
        self.lag(host);
        self.note_host(
            host,
            format_args!("on the smaller side, with the former leader"),
        );
        self.severed.insert(host, Severed::Led);
        self.leave_polls(host);
    }

    /// The former leader has stepped down.
    pub(crate) fn step_down(&mut self, host: Host) {
        if let Some(severed) = self.severed.get_mut(&host) {
            *severed = Severed::Leaderless;
            self.note_host(host, format_args!("knows no leader any more"));
        }
    }

    /// Ends [`Self::sever`]. What was held for a leader goes to it, if there is one.
    pub(super) fn rejoin(&mut self, host: Host) {
        if self.severed.remove(&host).is_some() && !self.leaderless {
            self.let_held_of_go(|it| it == host);
        }
    }

    pub(super) fn is_severed(&self, host: Host) -> bool {
        self.severed.contains_key(&host)
    }

    /// Whether the former leader answers this.
    pub(super) fn is_for_former(&self, host: Host, request: &Request) -> bool {
        let is_believed = may_be_stale(request) || is_renewal(request);
        is_believed && self.severed.get(&host) == Some(&Severed::Led)
    }

    /// Refuses what this host asks of a leader that its agent does not have.
    pub(super) fn refuse_severed(
        &mut self,
        host: Host,
        call: Option<Call>,
        request: &Request,
    ) -> bool {
        let needs = super::holding::needs_leader(request) && !self.is_for_former(host, request);
        if !self.is_severed(host) || !needs {
            return false;
        }
        if let Some(call) = call
            && self.servers.remove(&call).is_some()
        {
            let answer = Response::new(500, "No cluster leader");
            self.travel(host, Message::Answer(call, Ok(answer)));
        }
        true
    }

    /// Passes a renewal to the former leader, which renews the session that it remembers.
    pub(super) fn submit_to_former(
        &mut self,
        host: Host,
        request: &Request,
    ) -> Option<(Server, crate::consul::Exchange)> {
        if !is_renewal(request) || !self.is_for_former(host, request) {
            return None;
        }
        let node = self.hosts[host.0].agent.as_deref();
        let agent = self.lagging.get_mut(&host)?;
        let exchange = submit_to(agent, self.now, node, request);
        // Ends of sessions are entries of the log.
        agent.stop_timers();
        Some((Server::Lagging(host), exchange))
    }

    /// The polls of this host are not woken by the other side's changes.
    fn leave_polls(&mut self, host: Host) {
        let of_host = |call: &Call| self.servers.get(call).is_some_and(|it| it.host == host);
        let moved = self.exchanges.iter().filter(|(_, call)| of_host(call));
        let moved: Vec<_> = moved.map(|(exchange, call)| (*exchange, *call)).collect();
        for (exchange, call) in moved {
            let request = self.servers.get(&call).map(|it| it.request.clone());
            let Some(request) = request.filter(may_be_stale) else {
                continue;
            };
            self.exchanges.remove(&exchange);
            self.abandon(exchange);
            let exchange = self.submit(host, &request);
            self.expect(call, exchange);
        }
        self.collect_answers();
    }
}

fn is_renewal(request: &Request) -> bool {
    RequestKind::of(request) == RequestKind::SessionRenew
}
