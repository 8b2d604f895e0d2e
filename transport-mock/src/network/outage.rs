//! What affects more than one exchange: hosts cut off, a cluster without a leader, lost sessions.

use semaphore_core::adapter::TransportErrorKind;

use super::{Event, Host, Network};
use crate::fault::{Faults, Outage};

/// How a host is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// What is sent is lost.
    Silent,
    /// What is sent arrives when the cut is healed.
    Stalled,
}

impl Network {
    /// Cuts a host off.
    pub(crate) fn cut(&mut self, host: Host, cut: Cut) {
        self.note_host(host, format_args!("cut off ({cut:?})"));
        self.hosts[host.0].cut = Some(cut);
    }

    /// Ends a cut. Held-back messages arrive now.
    pub(crate) fn heal(&mut self, host: Host) {
        if self.hosts[host.0].cut.take().is_none() {
            return;
        }
        self.note_host(host, format_args!("reachable again"));
        // All arrive at one time, and so in their order: a client's hang-up must not overtake its
        // request.
        let arrives = self.now + self.draw_latency();
        for message in std::mem::take(&mut self.hosts[host.0].held) {
            self.timeline.add(arrives, Event::Message(host, message));
        }
    }

    /// Everything under way ends. Clients learn it at once, Consul never.
    pub(crate) fn break_connections(&mut self) {
        self.trace
            .tell(self.now, format_args!("all connections broken"));
        self.lose_log();
        self.lose_held();
        self.timeline.retain(|event| match event {
            Event::Message(_, message) => message.is_timeout(),
            Event::Arrive(..) | Event::HeldInVain(_) => false,
            Event::Wake(_) | Event::Heal(_) | Event::ElectLeader => true,
        });
        for host in &mut self.hosts {
            host.held.clear();
        }
        for exchange in std::mem::take(&mut self.exchanges).into_keys() {
            self.abandon(exchange);
        }
        self.servers.clear();
        let waiting: Vec<_> = self.clients.keys().copied().collect();
        for call in waiting {
            self.finish(call, Err(TransportErrorKind::Unknown));
        }
    }

    /// Everything works again.
    pub(crate) fn repair(&mut self) {
        self.rules.clear();
        self.faults = Faults::none();
        self.keep_indexes();
        if let Some(latency) = self.usual_latency.take() {
            self.latency = latency;
        }
        for host in 0..self.hosts.len() {
            self.heal(Host(host));
            self.catch_up(Host(host));
        }
        if self.leaderless {
            self.elect_leader();
        }
    }

    /// The cluster has a leader again.
    pub(crate) fn elect_leader(&mut self) {
        self.trace.tell(self.now, format_args!("leader elected"));
        self.leaderless = false;
        self.consul.elect_leader(self.now);
        self.end_behind();
        self.let_held_go();
        self.collect_answers();
    }

    /// The cluster is without a leader from now on.
    pub(crate) fn lose_leader(&mut self) {
        // What waits for a leader's log is refused when the leader is lost.
        self.catch_up_leader();
        self.trace.tell(self.now, format_args!("leader lost"));
        self.leaderless = true;
        self.consul.lose_leader(self.now);
        self.collect_answers();
    }

    pub(super) fn begin_outage(&mut self, host: Host, outage: Outage) {
        match outage {
            Outage::Leader(length) => {
                self.lose_leader();
                self.timeline.add(self.now + length, Event::ElectLeader);
            }
            Outage::Partition(length) => {
                self.cut(host, Cut::Silent);
                self.timeline.add(self.now + length, Event::Heal(host));
            }
            Outage::Session => {
                let ids = self
                    .consul
                    .sessions()
                    .map(|session| session.id().to_owned());
                let ids: Vec<_> = ids.collect();
                if let Some(id) = self.rng.choice(ids) {
                    self.trace
                        .tell(self.now, format_args!("session {id} destroyed"));
                    self.consul.destroy_session(self.now, &id);
                    self.collect_answers();
                }
            }
        }
    }
}
