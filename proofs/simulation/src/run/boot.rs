//! A process starts on a host.

use std::sync::Arc;
use std::time::Duration;

use semaphore_core::{Builder, Client, Election, Error, Semaphore};
use transport_mock::{MockClient, MockProcess, PooledClient};

use super::Run;
use super::contest::Contest;
use super::follower::{Follower, Through};
use super::hazards::Hazards;
use super::onlooker::Onlooker;
use super::user::User;
use super::wire::{Line, Looks, Wire};
use crate::history::Happening;
use crate::plan::{HostPlan, Place, Plan};

impl Run<'_> {
    /// Starts a new process on this host, with its semaphores and elections and all its users.
    pub(super) fn boot(&mut self, number: usize) {
        let Some(host) = self.hosts.get(&number) else {
            return;
        };
        if host.is_retired {
            return;
        }
        let (plan, line, users) = (host.plan, host.line.clone(), host.users.clone());
        let truth = self.world.client(format!("node-{number}"));
        let process = MockProcess::new(&truth.clone().with_clock_rate(plan.clock));
        line.lock().forget();
        let Ok(pools) = self.pools(plan, &line, &process, &truth) else {
            return;
        };
        let pool = pools.first();
        let Ok(client) = self.client(plan, &line, &process, &truth, pool) else {
            return;
        };
        let (mut tasks, mut contests) = (Vec::new(), Vec::new());
        for (prefix, users) in &users {
            let wire = self.wire(plan, &line, &process, &truth, Looks::Record, pool);
            let wire = self.towards(*prefix, wire);
            let Ok(contest) = self.contest(plan, *prefix, wire, &process, client.as_ref()) else {
                return;
            };
            contests.push((*prefix, contest.clone()));
            self.book.happened(Happening::Booted {
                host: number,
                prefix: *prefix,
                place: self.plan.place(*prefix),
                bounds: self.plan.bounds_of(plan),
            });
            tasks.extend(users.iter().map(|(turns, next)| {
                let user = User {
                    host: number,
                    prefix: *prefix,
                    contest: contest.clone(),
                    truth: truth.clone(),
                    book: self.book.clone(),
                    turns: Arc::clone(turns),
                    next: Arc::clone(next),
                    storm_end: self.rounds[0],
                    rounds: self.rounds,
                    explains_after: None,
                    stops_within: plan.keeps_lost,
                    lock_delay: self.plan.guards_for(plan, *prefix),
                };
                self.world.start(process.living(user.live()))
            }));
        }
        if users.len() > 1 {
            let mut book = self.book.lock();
            book.count_fault("process at several contested prefixes");
        }
        tasks.extend(self.start_own(plan, &line, &process, &truth, &pools, client.as_ref()));
        let follower = self.follower(plan, &line, &process, &truth, pool);
        let follower = follower.map(|it| self.world.start(process.living(it.live())));
        if let Some(host) = self.hosts.get_mut(&number) {
            host.tasks = tasks;
            host.contests = contests;
            host.follower = follower;
            host.process = Some(process);
            host.pools = pools;
        }
    }

    fn contest(
        &self,
        host: &HostPlan,
        number: usize,
        wire: Wire,
        process: &MockProcess,
        client: Option<&Client>,
    ) -> Result<Contest, Error> {
        let plan = self.plan;
        let prefix = &self.prefixes[number];
        match plan.place(number) {
            Place::Semaphore => {
                let limit = host.rolling.map_or(plan.limit, |it| it.limit);
                let builder = Semaphore::builder(prefix.as_str(), limit);
                let mut builder = self.told(builder, host, number);
                if let Some(delay) = host.lock_delay {
                    builder = builder.lock_delay(delay);
                }
                if host.keeps_lost.is_some() {
                    builder = builder.keep_lost();
                }
                if host.rolling.is_some() {
                    builder = builder.resize_if_idle();
                }
                if plan.changes_limits() && host.rolling.is_none_or(|it| it.adopts) {
                    builder = builder.adopt_limit();
                }
                let connected = match client {
                    Some(client) => builder.connect(client.clone()),
                    None => builder.connect_parts(Arc::new(wire), Arc::new(process.clone())),
                };
                connected.map(Contest::Semaphore)
            }
            Place::Election { lock_delay } => {
                let builder = Election::builder(prefix.record_key());
                let builder = self.told_election(builder, host, number, lock_delay);
                let connected = match client {
                    Some(client) => builder.connect(client.clone()),
                    None => builder.connect_parts(Arc::new(wire), Arc::new(process.clone())),
                };
                connected.map(Contest::Election)
            }
        }
    }

    /// The settings of all semaphores of a host.
    pub(super) fn told(
        &self,
        builder: Builder<Semaphore>,
        host: &HostPlan,
        prefix: usize,
    ) -> Builder<Semaphore> {
        let name = format!("node-{}", host.number);
        let mut builder = builder
            .value(name.as_str())
            .observer(Onlooker::new(host.number, prefix, &self.book))
            .ttl(host.ttl);
        if host.own_node {
            builder = builder.own_node(Plan::OWN_NODE);
        }
        if self.plan.access_control.is_some() {
            builder = builder.token(name);
        }
        builder
    }

    /// The settings of all elections of a host.
    pub(super) fn told_election(
        &self,
        builder: Builder<Election>,
        host: &HostPlan,
        prefix: usize,
        lock_delay: Option<Duration>,
    ) -> Builder<Election> {
        let name = format!("node-{}", host.number);
        let mut builder = builder
            .value(name.as_str())
            .observer(Onlooker::new(host.number, prefix, &self.book))
            .ttl(host.ttl);
        if let Some(delay) = lock_delay {
            builder = builder.lock_delay(delay);
        }
        if host.own_node {
            builder = builder.own_node(Plan::OWN_NODE);
        }
        if self.plan.access_control.is_some() {
            builder = builder.token(name);
        }
        builder
    }

    fn follower(
        &self,
        host: &HostPlan,
        line: &Line,
        process: &MockProcess,
        truth: &MockClient,
        pool: Option<&PooledClient>,
    ) -> Option<Follower> {
        let is_election = self.plan.place(host.prefix).is_election();
        let wire = || self.wire(host, line, process, truth, Looks::Elsewhere, pool);
        (host.follows && is_election).then(|| Follower {
            host: host.number,
            prefix: host.prefix,
            key: self.prefixes[host.prefix].record_key(),
            scope: self.scope_of_ours(&format!("node-{}", host.number)),
            wire: Arc::new(wire()),
            through: Through::of(host),
            process: process.clone(),
            truth: truth.clone(),
            book: self.book.clone(),
        })
    }

    pub(super) fn wire(
        &self,
        host: &HostPlan,
        line: &Line,
        process: &MockProcess,
        truth: &MockClient,
        looks: Looks,
        pool: Option<&PooledClient>,
    ) -> Wire {
        let looks = match self.plan.place(host.prefix) {
            Place::Election { .. } if looks == Looks::Record => Looks::Key,
            _ => looks,
        };
        Wire {
            client: process.client().clone(),
            pool: pool.cloned(),
            truth: truth.clone(),
            host: host.number,
            place: host.prefix,
            hazards: self.hazards(host, line, truth),
            prefix: self.prefixes[host.prefix].clone(),
            looks,
            line: line.clone(),
            book: self.book.clone(),
            latency: self.plan.latency,
        }
    }

    /// The same wire for another prefix at which its host contends with others.
    pub(super) fn towards(&self, number: usize, wire: Wire) -> Wire {
        let looks = match self.plan.place(number) {
            Place::Semaphore => Looks::Record,
            Place::Election { .. } => Looks::Key,
        };
        Wire {
            place: number,
            prefix: self.prefixes[number].clone(),
            looks,
            ..wire
        }
    }

    pub(super) fn hazards(&self, host: &HostPlan, line: &Line, truth: &MockClient) -> Hazards {
        let shares = host.shared.is_some();
        Hazards {
            host: host.number,
            truth: truth.clone(),
            line: line.clone(),
            book: self.book.clone(),
            latency: self.plan.latency,
            queueing: shares.then(|| self.plan.queueing(host.number)),
        }
    }
}
