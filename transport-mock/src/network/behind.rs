//! A leader that has not applied its whole log when it is elected.
//!
//! ```text
//!  renewals, reads in default mode ──▶ answered from what the leader has applied
//!  everything else ──▶ the log ──caught up──▶ delivered in its order, and answered then
//! ```

use semaphore_core::adapter::{Instant, Request};

use super::lag::{Server, may_be_stale, submit_to};
use super::{Call, Event, Host, Network};
use crate::consul::{Consul, Exchange, Snapshot};
use crate::kind::RequestKind;

/// The leader's applied state, and what waits for the rest of its log.
pub(super) struct Behind {
    leader: Consul,
    log: Vec<Event>,
}

impl Network {
    /// Elects a leader that has applied its log only up to this snapshot.
    pub(crate) fn elect_leader_behind(&mut self, applied: &Snapshot) {
        if self.behind.is_some() || !self.leaderless {
            self.lose_leader();
        }
        self.trace.tell(
            self.now,
            format_args!("leader elected, which has yet to apply its log"),
        );
        self.behind = Some(Behind {
            leader: self.consul.behind(applied),
            log: Vec::new(),
        });
    }

    /// The leader has applied its whole log.
    pub(crate) fn catch_up_leader(&mut self) {
        if self.behind.is_some() {
            self.elect_leader();
        }
    }

    /// Delivers what waited for the log. Blocking queries at the leader read again.
    pub(super) fn end_behind(&mut self) {
        if let Some(behind) = self.behind.take() {
            for event in behind.log {
                self.timeline.add(self.now, event);
            }
            self.ask_again(Server::Behind);
        }
    }

    /// Drops what waited for the log.
    pub(super) fn lose_log(&mut self) {
        if let Some(behind) = &mut self.behind {
            behind.log.clear();
            self.elect_leader();
        }
    }

    /// Puts a request into the leader's log, if it has to wait there.
    pub(super) fn put_into_log(
        &mut self,
        host: Host,
        call: Option<Call>,
        request: &Request,
        sent_at: Instant,
    ) -> bool {
        let waits = !is_answered_from_applied(request)
            && !self.is_for_lagging(host, request)
            && !self.is_severed(host);
        match &mut self.behind {
            Some(behind) if waits => {
                let event = Event::Arrive(host, call, request.clone(), sent_at);
                behind.log.push(event);
                true
            }
            _ => false,
        }
    }

    /// Passes a request to the leader.
    pub(super) fn submit_to_leader(&mut self, host: Host, request: &Request) -> (Server, Exchange) {
        let node = self.hosts[host.0].agent.as_deref();
        match &mut self.behind {
            Some(behind) if is_answered_from_applied(request) => {
                let exchange = behind.submit(self.now, node, request);
                (Server::Behind, exchange)
            }
            _ => {
                let exchange = submit_to(&mut self.consul, self.now, node, request);
                (Server::Leader, exchange)
            }
        }
    }
}

impl Behind {
    fn submit(&mut self, now: Instant, node: Option<&str>, request: &Request) -> Exchange {
        let exchange = submit_to(&mut self.leader, now, node, request);
        // Ends of sessions are entries of the log, too.
        self.leader.stop_timers();
        exchange
    }

    pub(super) fn leader(&self) -> &Consul {
        &self.leader
    }

    pub(super) fn leader_mut(&mut self) -> &mut Consul {
        &mut self.leader
    }
}

/// A renewal looks for its session in the applied state, like a read that need not be consistent.
fn is_answered_from_applied(request: &Request) -> bool {
    may_be_stale(request) || RequestKind::of(request) == RequestKind::SessionRenew
}
