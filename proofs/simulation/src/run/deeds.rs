//! Does deeds, and undoes them.

use std::collections::BTreeSet;
use std::time::Duration;

use semaphore_core::sans_io::{Instant, Method, Request};
use transport_mock::consul::{Consul, Policy, Snapshot};

use super::past::Past;
use super::seen::Seen;
use super::{Judged, Run};
use crate::history::{Followed, Happening};
use crate::plan::{Deed, Fate, Hidden, Plan};

/// An item of the agenda.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Do(Deed),
    Undo(Undo),
}

/// The end of a lasting deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    Boot(usize),
    GoOn(usize),
    Heal(usize),
    AgentUp(usize),
    GatewayGone(usize),
    CatchUp(usize),
    Permit(usize),
    Register(usize),
    Elect,
    /// A leader that lacks this many changes, for this long.
    ElectBehind(usize, Duration),
    CatchUpLeader,
    CommitFast,
    /// The former leader of this host's side steps down, and its side meets the other one.
    StepDown(usize),
    Rejoin(usize),
    LimitNoMore(Option<usize>),
    /// TTLs that were below this are accepted again.
    AcceptTtls(Duration),
    /// A clock that is this much ahead.
    WakeUp(usize, Duration),
    Repair(usize),
}

impl Run<'_> {
    pub(super) fn act(&mut self, act: Act) -> Judged {
        match act {
            Act::Do(deed) => self.commit(&deed),
            Act::Undo(undo) => self.undo(undo),
        }?;
        // What it wakes acts now. It must be judged at this moment, not at the next event's.
        self.step(self.world.now()).map(drop)
    }

    fn commit(&mut self, deed: &Deed) -> Judged {
        // It is too late for a deed that a late request has caused.
        if self.world.now() >= self.rounds[0] {
            return Ok(());
        }
        self.book.lock().count_fault(deed.name());
        if self.keeps_story {
            self.world.note(format_args!("           = {deed}"));
        }
        match deed {
            Deed::Kill { host, .. }
            | Deed::Exit { host, .. }
            | Deed::Retire { host }
            | Deed::Pause { host, .. }
            | Deed::Suspend { host, .. }
            | Deed::Partition { host, .. }
            | Deed::Stall { host, .. }
            | Deed::AgentDown { host, .. }
            | Deed::Gateway { host, .. }
            | Deed::Lag { host, .. }
            | Deed::Restrict { host, .. }
            | Deed::Narrow { host, .. }
            | Deed::Revoke { host, .. } => {
                self.judge_peaks(*host)?;
                self.hit_host(*host, deed);
                Ok(())
            }
            Deed::LoseServer {
                server,
                fate,
                time,
                reaped_after,
                back_after,
            } => {
                self.lose_server(*server, *fate, *time);
                self.reap_later(*server, (*time, *reaped_after, *back_after));
                Ok(())
            }
            Deed::Deregister { server, time } => self.deregister(*server, *time),
            Deed::DeregisterOwn => {
                self.world.deregister_node(Plan::OWN_NODE);
                self.judge_ending()
            }
            Deed::SlowCommits { .. }
            | Deed::LimitRequests { .. }
            | Deed::RaiseLeastTtl { .. }
            | Deed::StepDown { .. } => {
                self.begin_spell(deed);
                Ok(())
            }
            Deed::LoseLeader { time } => {
                self.world.lose_leader();
                self.trouble(None, *time + self.late());
                self.later(*time, Undo::Elect);
                Ok(())
            }
            Deed::SlowLeader {
                without,
                lacks,
                time,
            } => {
                self.world.lose_leader();
                self.trouble(None, *without + self.late());
                self.later(*without, Undo::ElectBehind(*lacks, *time));
                Ok(())
            }
            Deed::Snapshot => {
                self.snapshot = Some(self.world.consul(|consul, _| consul.snapshot()));
                Ok(())
            }
            Deed::ResetIndex => self.reset_index(),
            Deed::Restore => {
                if let Some(snapshot) = self.snapshot.clone() {
                    self.new_epoch();
                    self.restore(&snapshot);
                }
                self.judge_operation()
            }
            Deed::DestroySession { nth } => self.destroy_session(*nth),
            Deed::DeleteKey { prefix, nth } => self.delete_key(*prefix, *nth),
            Deed::RemoveHolder { prefix, nth } => self.remove_holder(*prefix, *nth),
            Deed::Resize { prefix, limit } => self.edit(*prefix, |record| record.set_limit(*limit)),
            Deed::Evict { prefix, .. }
            | Deed::SetLimit { prefix, .. }
            | Deed::Destroy { prefix } => {
                self.manage(*prefix, deed);
                Ok(())
            }
            Deed::Overwrite { prefix } => self.overwrite(*prefix),
            Deed::DeleteRecord { prefix } => {
                self.submit_on(*prefix, |key| Request::new(Method::Delete, key));
                self.judge_operation()
            }
            Deed::Garble { prefix, time } => {
                self.submit_on(*prefix, |key| {
                    Request::new(Method::Put, key).with_body("maintenance")
                });
                self.later(*time, Undo::Repair(*prefix));
                self.judge_operation()
            }
        }
    }

    /// Moves the cluster's state to a new one, where indexes start again.
    fn reset_index(&mut self) -> Judged {
        // After a second reset, an old index could have another meaning. No check-and-set can
        // notice that, and nothing is promised then.
        if std::mem::replace(&mut self.was_reset, true) {
            return Ok(());
        }
        self.new_epoch();
        // Requests to the old cluster do not arrive at the new one. The new one's agents have never
        // known another state than the one that was moved.
        self.world.break_connections();
        for host in self.hosts.keys() {
            self.world.catch_up(format!("node-{host}"));
        }
        self.trouble(None, Duration::ZERO);
        self.world.consul(Consul::reset_index);
        // The new cluster's log does not contain it either.
        self.past = self.past.take().map(|_| Past::default());
        self.judge_operation()
    }

    /// Removes a lost server's node, if it stays away for long enough.
    fn reap_later(
        &mut self,
        server: usize,
        (time, reaped_after, back_after): (Duration, Duration, Duration),
    ) {
        if let Some(time) = time.checked_sub(reaped_after) {
            let time = time + back_after;
            let reap = Deed::Deregister { server, time };
            self.plan_act(self.world.now() + reaped_after, Act::Do(reap));
        }
    }

    /// Removes a server's node. Until it is back, its hosts can't create sessions.
    fn deregister(&mut self, server: usize, time: Duration) -> Judged {
        self.count_struck(server);
        self.judge_nodes(server)?;
        let hosts = self.plan.hosts.iter();
        let hosts = hosts.filter(|it| it.server == Some(server));
        for host in hosts.map(|it| it.number) {
            let until = self.world.now() + time;
            self.book.happened(Happening::Hindered { host, until });
        }
        self.world.deregister_node(Plan::node(server));
        self.later(time, Undo::Register(server));
        self.judge_ending()
    }

    /// Loses a server, and with it all hosts that talk to it.
    fn lose_server(&mut self, server: usize, fate: Fate, time: Duration) {
        let hosts = self.plan.hosts.iter();
        let hosts = hosts.filter(|it| it.server == Some(server));
        if let Fate::Outvoted { believes, elects } = fate {
            let hosts: Vec<_> = hosts.map(|it| it.number).collect();
            self.part(&hosts, (believes, elects), time);
            return;
        }
        for host in hosts.map(|it| it.number) {
            let deed = match fate {
                Fate::CutOff | Fate::Remembers => Deed::Partition { host, time },
                Fate::Stalled => Deed::Stall { host, time },
                Fate::Paused | Fate::Outvoted { .. } => Deed::Pause { host, time },
            };
            self.hit_host(host, &deed);
            if fate == Fate::Remembers
                && let Some(host) = self.hosts.get(&host)
            {
                host.line.lock().renews_from_memory = true;
            }
        }
    }

    fn hit_host(&mut self, number: usize, deed: &Deed) {
        let name = format!("node-{number}");
        let Some(host) = self.hosts.get_mut(&number) else {
            return;
        };
        match deed {
            Deed::Kill { down, .. } | Deed::Exit { down, .. } => {
                if let Some(process) = host.process.take() {
                    if matches!(deed, Deed::Exit { .. }) {
                        self.book.happened(Happening::Returns { host: number });
                        process.exit();
                    } else {
                        process.kill();
                    }
                    host.tasks.clear();
                    host.contests.clear();
                    host.pools.clear();
                    self.book.happened(Happening::Stopped { host: number });
                    self.later(*down, Undo::Boot(number));
                }
            }
            Deed::Retire { .. } => self.retire(number),
            Deed::Pause { time, .. } => {
                if let Some(process) = &host.process {
                    process.pause();
                }
                self.trouble(Some(number), *time);
                self.later(*time, Undo::GoOn(number));
            }
            Deed::Suspend { time, ahead, .. } => self.suspend(number, *time, *ahead),
            Deed::Partition { time, .. } => {
                self.world.partition(&name);
                self.trouble(Some(number), *time);
                self.later(*time, Undo::Heal(number));
            }
            Deed::Stall { time, .. } => {
                self.world.stall(&name);
                self.trouble(Some(number), *time);
                self.later(*time, Undo::Heal(number));
            }
            Deed::AgentDown { time, .. } => {
                host.line.lock().is_agent_down = true;
                self.trouble(Some(number), *time);
                self.later(*time, Undo::AgentUp(number));
            }
            Deed::Gateway { time, answer, .. } => {
                let mut line = host.line.lock();
                line.gateway = Some(*answer);
                line.deny(false);
                drop(line);
                self.book.happened(Happening::Denied { host: number });
                self.trouble(Some(number), *time);
                self.later(*time, Undo::GatewayGone(number));
            }
            Deed::Lag { time, .. } => {
                host.line.lock().lags_since = Some(self.world.now());
                self.world.lag(&name);
                self.later(*time, Undo::CatchUp(number));
            }
            Deed::Restrict { what, time, .. } if self.plan.access_control.is_some() => {
                host.line.lock().deny(true);
                let mut places = host.plan.places();
                let in_election = places.any(|it| self.plan.place(it).is_election());
                self.book
                    .happened(if *what != Hidden::Others || in_election {
                        Happening::Blinded { host: number }
                    } else {
                        Happening::Denied { host: number }
                    });
                self.forbid(number, *what);
                self.later(*time, Undo::Permit(number));
            }
            Deed::Narrow { what, time, .. } if self.plan.access_control.is_some() => {
                let narrowed =
                    |all, it: usize| what.policy(all, &self.prefixes[it], self.plan.place(it));
                let policy = host.plan.places().fold(Policy::management(), narrowed);
                self.world
                    .consul(|consul, _| consul.add_token(&name, policy));
                host.line.lock().deny(false);
                self.book.happened(Happening::Narrowed { host: number });
                self.trouble(Some(number), *time);
                self.later(*time, Undo::Permit(number));
            }
            Deed::Revoke { time, .. } if self.plan.access_control.is_some() => {
                self.world.consul(|consul, _| consul.remove_token(&name));
                host.line.lock().deny(true);
                self.book.happened(Happening::Blinded { host: number });
                self.trouble(Some(number), *time);
                self.later(*time, Undo::Permit(number));
            }
            _ => {}
        }
    }

    /// Ends the process of this host in order, and starts no other.
    fn retire(&mut self, number: usize) {
        let Some(host) = self.hosts.get_mut(&number) else {
            return;
        };
        host.is_retired = true;
        if host.process.is_some() {
            self.book.happened(Happening::Returns { host: number });
        }
        host.tasks.clear();
        host.contests.clear();
        host.pools.clear();
        if let Some(follower) = host.follower.take() {
            follower.abort();
            let (prefix, what) = (host.plan.prefix, Followed::NoMore);
            let told = Happening::Follows {
                host: number,
                prefix,
                what,
            };
            self.book.happened(told);
        }
        if let Some(process) = host.process.take() {
            process.exit();
            self.book.happened(Happening::Stopped { host: number });
        }
    }

    fn undo(&mut self, undo: Undo) -> Judged {
        match undo {
            Undo::Boot(number) => {
                let is_down = self
                    .hosts
                    .get(&number)
                    .is_some_and(|host| host.process.is_none());
                if is_down {
                    self.boot(number);
                }
            }
            Undo::GoOn(number) => {
                let process = self.hosts.get(&number).and_then(|it| it.process.as_ref());
                if let Some(process) = process {
                    process.go_on();
                }
                self.trouble(Some(number), Duration::ZERO);
            }
            Undo::Heal(number) => {
                self.world.heal(format!("node-{number}"));
                if let Some(host) = self.hosts.get(&number) {
                    host.line.lock().renews_from_memory = false;
                }
                self.trouble(Some(number), Duration::ZERO);
            }
            Undo::AgentUp(number) => {
                if let Some(host) = self.hosts.get(&number) {
                    host.line.lock().is_agent_down = false;
                }
            }
            Undo::GatewayGone(number) => {
                if let Some(host) = self.hosts.get(&number) {
                    let mut line = host.line.lock();
                    line.gateway = None;
                    line.serve();
                    drop(line);
                    self.book.happened(Happening::Served { host: number });
                }
            }
            Undo::CatchUp(number) => {
                self.world.catch_up(format!("node-{number}"));
                if let Some(host) = self.hosts.get(&number) {
                    host.line.lock().lags_since = None;
                }
            }
            Undo::Permit(number) => self.permit(number),
            Undo::Register(server) => self.world.register_node(Plan::node(server)),
            Undo::Elect => {
                self.world.elect_leader();
                self.trouble(None, Duration::ZERO);
            }
            Undo::ElectBehind(lacks, time) => {
                match self.past.as_ref().and_then(|it| it.lacking(lacks)) {
                    Some(applied) => self.world.elect_leader_behind(applied),
                    None => self.world.elect_leader(),
                }
                self.trouble(None, time);
                self.later(time, Undo::CatchUpLeader);
            }
            Undo::CatchUpLeader => {
                self.world.catch_up_leader();
                self.trouble(None, Duration::ZERO);
            }
            Undo::CommitFast => self.book.lock().commits = None,
            Undo::Repair(prefix) => return self.repair(prefix),
            Undo::StepDown(_)
            | Undo::Rejoin(_)
            | Undo::LimitNoMore(_)
            | Undo::AcceptTtls(_)
            | Undo::WakeUp(..) => self.relieve(undo),
        }
        Ok(())
    }

    /// From now on nothing goes wrong, whatever is still on the agenda.
    pub(super) fn calm(&mut self) -> Judged {
        let acts = std::mem::take(&mut self.agenda);
        for act in acts.into_values() {
            if matches!(act, Act::Undo(_)) {
                self.act(act)?;
            }
        }
        for host in self.hosts.values() {
            host.line.calm();
        }
        self.book.lock().commits = None;
        self.operations.clear();
        self.world.clear_faults();
        // A restored snapshot may have forgotten a server that came back long ago.
        for server in self.plan.hosts.iter().filter_map(|it| it.server) {
            self.world.register_node(Plan::node(server));
        }
        for prefix in 0..self.prefixes.len() {
            self.repair(prefix)?;
        }
        self.book.happened(Happening::Quiet);
        self.judge_step()
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        let servers = self.plan.hosts.iter().filter_map(|it| it.server);
        let nodes: Vec<String> = servers.map(Plan::node).collect();
        let revived = self.world.consul(|consul, now| {
            let before = Seen::contenders(consul);
            let there: Vec<_> = nodes.iter().filter(|it| consul.has_node(it)).collect();
            consul.restore(now, snapshot);
            // A leader registers the servers that are there.
            for node in there {
                consul.register_node(now, node);
            }
            let after = Seen::contenders(consul);
            let back = after.difference(&before);
            back.map(|(_, session)| session.clone())
                .collect::<BTreeSet<_>>()
        });
        for session in revived {
            self.book.happened(Happening::Revived { session });
        }
        // Consul does not remember any lock delay either.
        self.book.lock().guard_no_more(self.seen.index());
    }

    fn new_epoch(&mut self) {
        for host in self.hosts.values() {
            host.line.lock().renumber(self.world.now());
        }
        self.book.happened(Happening::NewEpoch);
    }

    pub(super) fn later(&mut self, time: Duration, undo: Undo) {
        self.plan_act(self.world.now() + time, Act::Undo(undo));
    }

    /// The longest time for which a request is held after an election.
    pub(super) fn late(&self) -> Duration {
        self.plan.holding.map_or(Duration::ZERO, |it| it.late)
    }

    /// The trouble of this length ends when the requests that it has hit have timed out.
    pub(super) fn trouble(&mut self, host: Option<usize>, time: Duration) {
        let ends = self.world.now() + time;
        if host.is_none() {
            let until: Instant = ends + self.plan.shortest_request();
            self.book.happened(Happening::Trouble { host, until });
        }
        let hosts = self.plan.hosts.iter().map(|it| it.number);
        for number in hosts.filter(|it| host.is_none_or(|host| host == *it)) {
            let felt = self.plan.longest_request(number) + self.plan.queueing(number);
            self.book.happened(Happening::Trouble {
                host: Some(number),
                until: ends + felt,
            });
        }
    }
}
