//! Measures the semaphore: the cost of one acquisition, how a crowd is served, and how many
//! semaphores in one process affect each other.
//!
//! ```sh
//! cargo run --release --bin contend -- --mode cycle --cold
//! cargo run --release --bin contend -- --mode contend --contenders 100 --hold-ms 10 --json
//! cargo run --release --bin contend -- --mode hold --hold-ms 60000
//! cargo run --release --bin contend -- --mode fleet --semaphores 250 --waiters 50 --json
//! ```
//! Runs on a Consul in memory, or on the agent in `CONSUL_HTTP_ADDR`. It counts the requests, bytes
//! and connections of the acquisitions. Unless there was a warm-up, that includes creating and
//! ending their sessions. In mode `hold` it counts from the permit to just before its release.
//!
//! Mode `hold` also reports when it held, in seconds since 1970 by the machine's clock, so that
//! holders in several processes can be compared. It prints a line at once, or fields of the JSON.
//! ```text
//! granted at 1763858429.123
//! not held any more at 1763858445.003
//! ```
//!
//! Mode `fleet` uses many semaphores, each with a separate prefix below `--prefix`. It acquires one
//! slot of each, holds all for `--hold-ms` after the last grant, and gives all back. Waiters want
//! all slots of a semaphore of which one is held. All semaphores belong to one client, unless
//! `--transports` says otherwise. It reports how many were granted, how many were lost, and their
//! cost: the peak of connections and threads (including those of the Consul in memory), and the
//! requests during the time in which all were held.

mod plan;

use std::fmt::Display;
use std::ops::AddAssign;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser as _;
use examples::agent::Agent;
use examples::alarm::Alarm;
use examples::backend::{Handle, Host, Hosts, Transports};
use examples::bare;
use examples::contender::{Contender, Observer, Outcome};
use examples::crew::Crew;
use examples::failure::Failure;
use examples::fleet::Fleet;
use examples::fleet_report::FleetReport;
use examples::gauge::{Gauge, most_at_once};
use examples::holds::{self, Clock};
use examples::meter::{Meter, Reading};
use examples::peaks::Watcher;
use examples::report::{Measured, Report};
use examples::wall::Wall;
use examples::{complain, say};
use semaphore_core::{Builder, Client, Error, FencingToken, Permit, Semaphore};
use serde::Serialize;

use crate::plan::{Flags, Mode, Plan};

fn main() -> ExitCode {
    let plan = match Flags::parse().plan() {
        Ok(plan) => plan,
        Err(error) => error.exit(),
    };
    let ran = match plan.flags.mode {
        Mode::Fleet => run_fleet(&plan),
        _ => run(&plan),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

/// Returns whether all semaphores were granted and kept.
fn run_fleet(plan: &Plan) -> Result<bool, Failure> {
    let hosts = Hosts::new(plan.flags.backend, Agent::find()?)?;
    let builder = |number| {
        let prefix = format!("{}/{number:05}", plan.flags.prefix);
        plan.builder(&prefix)
    };
    let fleet = Fleet {
        hosts: &hosts,
        builder: &builder,
        semaphores: plan.semaphores,
        limit: plan.limit.get(),
        waiters: plan.waiters,
        transports: plan.transports,
        hold: plan.hold,
        patience: Duration::from_secs(plan.flags.timeout_s),
    };
    let outcome = fleet.run()?;
    let complaints = outcome.complaints();
    for complaint in &complaints {
        complain!("error: {complaint}");
    }
    print(plan, &FleetReport::new(&outcome))?;
    Ok(complaints.is_empty())
}

/// Returns whether the limit was kept and nothing failed.
fn run(plan: &Plan) -> Result<bool, Failure> {
    let flags = &plan.flags;
    let bench = Bench::new(plan)?;
    let agent = bench.hosts.agent();
    // Wrong settings are reported before anything is sent.
    let (members, client) = bench.members()?;
    let Some(first) = members.first() else {
        return Ok(false);
    };
    let watcher = Watcher::start(agent)?;
    first.host.probe(agent)?;
    // Measured before and after, since the machine may be busy at one of these times.
    let measure_bare = || {
        let acquisitions = plan.contenders.saturating_mul(plan.rounds);
        bare::measure(&first.host, &flags.prefix, acquisitions)
    };
    let mut bare = measure_bare()?;
    let beside = bench.held_beside(&first.host)?;
    let mut failed = Failed::default();
    if flags.warm_up > 0 {
        failed += tell(&bench.rounds(&members, flags.warm_up as usize)?);
    }

    let clock = Clock::read();
    let before = bench.hosts.traffic();
    let began = Instant::now();
    let outcomes = bench.rounds(&members, plan.rounds)?;
    let total = began.elapsed();
    let of_rounds = bench.hosts.traffic();
    for member in &members {
        member.handle.shutdown(&member.host);
    }
    if let Some((semaphore, permit)) = beside {
        first.host.wait(async {
            permit.release().await?;
            semaphore.shutdown().await;
            semaphore.destroy().await
        })?;
    }
    let traffic = match (flags.mode, bench.steady.traffic()) {
        (Mode::Hold, Some(steady)) => steady,
        _ if flags.warm_up > 0 => of_rounds.since(before),
        _ => bench.hosts.traffic().since(before),
    };
    let peaks = watcher.peaks();
    // If the agent is gone by now, the other results are still reported.
    if let Ok(after) = measure_bare() {
        bare.extend([after]);
    }
    let destroyed = first.handle.destroy(&first.host);
    if let Some(client) = client {
        first.host.wait(client.shutdown());
    }

    let beliefs = bench.gauge.beliefs();
    if let Some(file) = &flags.holds {
        holds::append(file, &beliefs, &clock).map_err(Failure::Holds)?;
    }
    failed += tell(&outcomes);
    let report = Report::new(&Measured {
        errors: failed.all,
        lost: failed.lost,
        rounds: outcomes
            .iter()
            .flat_map(|outcome| &outcome.rounds)
            .copied()
            .collect(),
        max_held: most_at_once(&beliefs),
        limit: plan.limit,
        hold: plan.hold,
        total,
        contenders: plan.contenders,
        slots: flags.slots,
        bare,
        traffic,
        peak_connections: peaks.connections,
        wall: bench.wall.as_ref().map(|wall| wall.hold()),
    });
    print(plan, &report)?;
    destroyed?;
    Ok(report.is_well(plan.limit))
}

fn print(plan: &Plan, report: &(impl Serialize + Display)) -> Result<(), Failure> {
    if plan.flags.json {
        say!("{}", serde_json::to_string(report).map_err(Failure::Json)?);
    } else {
        say!("{report}");
    }
    Ok(())
}

/// How many contenders were stopped.
#[derive(Default)]
struct Failed {
    all: usize,
    /// Those who lost what they held.
    lost: usize,
}

impl AddAssign for Failed {
    fn add_assign(&mut self, more: Self) {
        self.all += more.all;
        self.lost += more.lost;
    }
}

/// Reports what stopped contenders, and how many.
fn tell(outcomes: &[Outcome]) -> Failed {
    let mut failed = Failed::default();
    for error in outcomes.iter().filter_map(|outcome| outcome.error.as_ref()) {
        complain!("error: {}", error);
        failed.all += 1;
        failed.lost += usize::from(matches!(error, Error::Lost(_)));
    }
    failed
}

/// A run in progress.
struct Bench<'a> {
    plan: &'a Plan,
    hosts: Hosts,
    alarm: Alarm,
    gauge: Arc<Gauge>,
    steady: Arc<Steady>,
    /// Only in mode hold.
    wall: Option<Arc<Wall>>,
}

/// Reads the meter at the beginning and the end of a hold.
struct Steady {
    meter: Arc<Meter>,
    began: Mutex<Option<Reading>>,
    ended: Mutex<Option<Reading>>,
}

/// A host and its handle of the semaphore.
struct Member {
    host: Host,
    handle: Handle,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Failure> {
        let hosts = Hosts::new(plan.flags.backend, Agent::find()?)?;
        let tells = plan.flags.mode == Mode::Hold;
        Ok(Self {
            plan,
            wall: tells.then(|| Arc::new(Wall::new(!plan.flags.json))),
            steady: Arc::new(Steady::new(hosts.meter())),
            hosts,
            alarm: Alarm::start()?,
            gauge: Arc::default(),
        })
    }

    /// All hosts, and their client if they share one.
    fn members(&self) -> Result<(Vec<Member>, Option<Client>), Failure> {
        let Plan {
            participants,
            transports,
            ..
        } = *self.plan;
        let hosts = self.hosts.several(participants, transports)?;
        let client = match (transports, hosts.first()) {
            (Transports::Client, Some(first)) => Some(Client::builder().connect(first.clone())?),
            _ => None,
        };
        let member = |host: Host| {
            let host = client.as_ref().map_or(host.clone(), |it| host.with(it));
            let handle = host.connect(self.builder())?;
            Ok(Member { host, handle })
        };
        let members = hosts.into_iter().map(member);
        Ok((members.collect::<Result<_, Failure>>()?, client))
    }

    /// Another semaphore of the same process, held while each measured one is new.
    fn held_beside(&self, host: &Host) -> Result<Option<(Semaphore, Permit)>, Failure> {
        let Plan {
            flags, transports, ..
        } = self.plan;
        if flags.mode != Mode::Cycle || !flags.cold || *transports != Transports::Client {
            return Ok(None);
        }
        let prefix = format!("{}-beside", flags.prefix);
        let builder = self.plan.builder(&prefix);
        let semaphore = builder.connect(host.clone())?;
        let permit = host.wait(semaphore.acquire_timeout(self.plan.timeout))?;
        Ok(Some((semaphore, permit)))
    }

    fn rounds(&self, members: &[Member], rounds: usize) -> Result<Vec<Outcome>, Failure> {
        if self.plan.flags.mode == Mode::Contend {
            self.at_once(members, rounds)
        } else {
            self.in_turn(members, rounds)
        }
    }

    fn at_once(&self, members: &[Member], rounds: usize) -> Result<Vec<Outcome>, Failure> {
        let mut crew = Crew::new();
        for (number, member) in self.spread(members) {
            let mut contender = self.contender(number, rounds);
            if self.plan.flags.cold {
                let (builder, host) = (self.builder(), member.host.clone());
                contender.connects = Some(Arc::new(move || host.connect(builder.clone())));
            }
            contender.start(&member.handle, &member.host, &mut crew)?;
        }
        // Each gives up alone. What it leaves is cleaned up within two TTLs.
        crew.finish(self.plan.timeout + Duration::from_secs(60))
    }

    fn in_turn(&self, members: &[Member], rounds: usize) -> Result<Vec<Outcome>, Failure> {
        let turn = |(number, member): (usize, &Member)| {
            if self.plan.flags.cold {
                self.cold(number, &member.host, rounds)
            } else {
                let contender = self.contender(number, rounds);
                Ok(contender.run_here(&member.handle, &member.host))
            }
        };
        self.spread(members).map(turn).collect()
    }

    /// Each round has a separate semaphore, and ending it is part of the cycle.
    fn cold(&self, number: usize, host: &Host, rounds: usize) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        for _ in 0..rounds {
            let handle = host.connect(self.builder())?;
            let mut one = self.contender(number, 1).run_here(&handle, host);
            let ending = Instant::now();
            handle.shutdown(host);
            for round in &mut one.rounds {
                round.release += ending.elapsed();
            }
            outcome.rounds.append(&mut one.rounds);
            outcome.error = one.error;
            if outcome.error.is_some() {
                break;
            }
        }
        Ok(outcome)
    }

    fn contender(&self, number: usize, rounds: usize) -> Contender {
        Contender {
            number,
            holds: vec![self.plan.hold; rounds],
            slots: self.plan.flags.slots.get(),
            connects: None,
            alarm: self.alarm.clone(),
            is_alone: self.plan.participants == self.plan.contenders,
            patience: self.plan.timeout,
            gauge: Arc::clone(&self.gauge),
            observer: self.steady.clone(),
            wall: self.wall.clone(),
        }
    }

    fn spread<'m>(&self, members: &'m [Member]) -> impl Iterator<Item = (usize, &'m Member)> {
        members
            .iter()
            .cycle()
            .take(self.plan.contenders)
            .enumerate()
    }

    fn builder(&self) -> Builder {
        let prefix = self.plan.flags.prefix.as_str();
        self.plan.builder(prefix)
    }
}

impl Steady {
    fn new(meter: &Arc<Meter>) -> Self {
        Self {
            meter: Arc::clone(meter),
            began: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    fn read_into(&self, reading: &Mutex<Option<Reading>>) {
        *reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.meter.read());
    }

    /// The traffic during the last hold.
    fn traffic(&self) -> Option<Reading> {
        let read = |at: &Mutex<Option<Reading>>| *at.lock().unwrap_or_else(PoisonError::into_inner);
        Some(read(&self.ended)?.since(read(&self.began)?))
    }
}

impl Observer for Steady {
    fn granted(&self, _contender: usize, _token: FencingToken) {
        self.read_into(&self.began);
    }

    fn ended(&self, _contender: usize) {
        self.read_into(&self.ended);
    }
}
