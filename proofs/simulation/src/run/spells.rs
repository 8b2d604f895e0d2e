//! Spells in which servers or machines do their work otherwise: they are busy, limit requests, ask for
//! longer TTLs, are parted, or are suspended.

use std::time::Duration;

use transport_mock::consul::RequestLimits;

use super::Run;
use super::book::Commits;
use super::contest::Contest;
use super::deeds::Undo;
use crate::history::Happening;
use crate::plan::{Deed, Plan};

/// The shortest TTL that servers accept unless they are told another one (Consul's documentation of
/// `session_ttl_min`).
const USUAL_LEAST_TTL: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// Begins what this deed is about.
    pub(super) fn begin_spell(&mut self, deed: &Deed) {
        match *deed {
            Deed::SlowCommits {
                takes,
                renewals,
                time,
            } => {
                self.book.lock().commits = Some(Commits { takes, renewals });
                self.later(time, Undo::CommitFast);
            }
            Deed::LimitRequests {
                server,
                reads,
                writes,
                time,
            } => {
                let limits = RequestLimits {
                    read_rate: reads,
                    write_rate: writes,
                };
                self.limit(server, Some(limits));
                self.trouble_of(server, time);
                self.later(time, Undo::LimitNoMore(server));
            }
            Deed::RaiseLeastTtl { ttl, time } => {
                self.world.consul(|consul, _| consul.set_least_ttl(ttl));
                for (number, host) in &self.hosts {
                    if host.plan.ttl < ttl {
                        host.line.lock().deny(false);
                        let host = *number;
                        self.book.happened(Happening::Denied { host });
                    }
                }
                self.later(time, Undo::AcceptTtls(ttl));
            }
            Deed::StepDown { host } => self.step_down(host),
            _ => {}
        }
    }

    /// The servers are parted: these hosts are on the smaller side, with the former leader.
    pub(super) fn part(
        &mut self,
        hosts: &[usize],
        (believes, elects): (Duration, Duration),
        time: Duration,
    ) {
        for host in hosts {
            let name = format!("node-{host}");
            if let Some(host) = self.hosts.get(host) {
                let mut line = host.line.lock();
                line.lags_since = Some(self.world.now());
                line.is_parted = true;
            }
            self.world.sever(name);
            self.trouble(Some(*host), time);
            self.later(believes.min(time), Undo::StepDown(*host));
            self.later(time, Undo::Rejoin(*host));
        }
        self.world.lose_leader();
        let without = elects.min(time);
        self.trouble(None, without + self.late());
        self.later(without, Undo::Elect);
    }

    /// The host's machine is suspended for this time.
    pub(super) fn suspend(&mut self, number: usize, time: Duration, ahead: Duration) {
        let process = self.hosts.get(&number).and_then(|it| it.process.as_ref());
        if let Some(process) = process {
            process.suspend();
        }
        self.trouble(Some(number), time);
        self.later(time, Undo::WakeUp(number, ahead));
    }

    /// A leader on this host steps down, by its own handle.
    fn step_down(&mut self, host: usize) {
        let Some(running) = self.hosts.get(&host) else {
            return;
        };
        let Some(process) = &running.process else {
            return;
        };
        for (prefix, contest) in &running.contests {
            let Contest::Election(election) = contest.clone() else {
                continue;
            };
            let (book, prefix) = (self.book.clone(), *prefix);
            let task = process.living(async move {
                book.happened(Happening::StepsDown { host, prefix });
                // Where cleaning up fails, the TTL does it, which is seen.
                drop(election.step_down().await);
            });
            self.asked.push(self.world.start(task));
        }
    }

    /// Ends one of these spells.
    pub(super) fn relieve(&mut self, undo: Undo) {
        match undo {
            Undo::StepDown(number) => self.world.step_down(format!("node-{number}")),
            Undo::Rejoin(number) => {
                self.world.catch_up(format!("node-{number}"));
                if let Some(host) = self.hosts.get(&number) {
                    let mut line = host.line.lock();
                    line.lags_since = None;
                    line.is_parted = false;
                }
                self.trouble(Some(number), self.late());
            }
            Undo::LimitNoMore(server) => {
                self.limit(server, None);
                self.trouble_of(server, Duration::ZERO);
            }
            Undo::AcceptTtls(ttl) => {
                self.world
                    .consul(|consul, _| consul.set_least_ttl(USUAL_LEAST_TTL));
                for (number, host) in &self.hosts {
                    if host.plan.ttl < ttl {
                        host.line.lock().serve();
                        let host = *number;
                        self.book.happened(Happening::Served { host });
                    }
                }
            }
            Undo::WakeUp(number, ahead) => {
                let process = self.hosts.get(&number).and_then(|it| it.process.as_ref());
                if let Some(process) = process {
                    process.client().jump_ahead(ahead);
                    process.wake_up();
                }
                let (host, by) = (number, ahead);
                self.book.happened(Happening::Jumped { host, by });
                self.trouble(Some(number), Duration::ZERO);
            }
            _ => {}
        }
    }

    fn limit(&self, server: Option<usize>, limits: Option<RequestLimits>) {
        match server {
            None => self.world.set_request_limits(limits),
            Some(server) => self.world.consul(|consul, now| {
                consul.set_request_limits_of(now, &Plan::node(server), limits);
            }),
        }
    }

    /// Trouble for the hosts of this server, or for all.
    fn trouble_of(&mut self, server: Option<usize>, time: Duration) {
        if server.is_none() {
            return self.trouble(None, time);
        }
        let hosts = self.plan.hosts.iter();
        let hosts = hosts.filter(|it| it.server == server);
        for host in hosts.map(|it| it.number).collect::<Vec<_>>() {
            self.trouble(Some(host), time);
        }
    }
}
