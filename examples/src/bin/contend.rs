//! Measures the semaphore: what an acquisition costs alone, how a crowd is served, and what many
//! semaphores in one process do to each other.
//!
//! ```sh
//! cargo run --release --bin contend -- --mode cycle --cold
//! cargo run --release --bin contend -- --mode contend --contenders 100 --hold-ms 10 --json
//! cargo run --release --bin contend -- --mode hold --hold-ms 60000
//! cargo run --release --bin contend -- --mode fleet --semaphores 250 --waiters 50 --json
//! ```
//! Runs on a Consul in memory, or on the agent that `CONSUL_HTTP_ADDR` names. What is counted are
//! requests, bytes and connections of the acquisitions: with the making and ending of their sessions
//! unless there was a warm-up, and in mode `hold` from the permit to just before its release.
//!
//! Mode `hold` also tells when it held by the machine's clock, in seconds since 1970, so that holders
//! in several processes can be laid side by side: a line as soon as it happens, or fields of the JSON.
//! ```text
//! granted at 1763858429.123
//! not held any more at 1763858445.003
//! ```
//!
//! Mode `fleet` is about many semaphores, each with a prefix of its own below `--prefix`: one slot of
//! each is acquired, all are held for `--hold-ms` after the last grant, and all are given back. Waiters
//! want all slots of a semaphore of which one is held. All handles share one transport, unless
//! `--transports each` says otherwise. It tells how many were granted, how many were lost, and what
//! they took: connections and threads at the peak (the Consul in memory's threads included), and the
//! requests of the time in which all were held.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, ValueEnum};
use examples::agent::Agent;
use examples::alarm::Alarm;
use examples::backend::{Backend, Handle, Host, Hosts, Transports};
use examples::bare;
use examples::contender::{Contender, Observer, Outcome};
use examples::crew::Crew;
use examples::failure::{Failure, with_causes};
use examples::flags;
use examples::fleet::Fleet;
use examples::fleet_report::FleetReport;
use examples::gauge::{Gauge, most_at_once};
use examples::holds::{self, Clock};
use examples::meter::{Meter, Reading};
use examples::peaks::Watcher;
use examples::report::{Measured, Report};
use examples::wall::Wall;
use semaphore_core::{Builder, FencingToken, Prefix, Semaphore};
use serde::Serialize;

/// Measures the semaphore on a Consul in memory, or on the agent that `CONSUL_HTTP_ADDR` names.
///
/// Exits with 1 when more than the limit held at once, or anything failed or was lost.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// What sends the requests and runs the contenders
    #[arg(long, value_enum, default_value_t = Backend::Tokio)]
    backend: Backend,
    /// What is measured
    #[arg(long, value_enum, default_value_t = Mode::Contend)]
    mode: Mode,
    /// In mode cycle: a new semaphore with a new session for each acquisition
    #[arg(long)]
    cold: bool,
    /// How many hosts [default: 4, or as many as contend]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    participants: Option<u16>,
    /// How many contend, spread over the hosts [default: 15, in modes cycle and hold 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    contenders: Option<u32>,
    /// In mode fleet: how many semaphores [default: 250]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    semaphores: Option<u16>,
    /// In mode fleet: how many wait behind them, spread over the semaphores [default: 0]
    #[arg(long)]
    waiters: Option<u16>,
    /// Whose connections are used: those of one transport, or each host's (in mode fleet each handle's)
    /// own [default: each, in mode fleet shared]
    #[arg(long, value_enum)]
    transports: Option<Transports>,
    /// How many may hold at once [default: 3, in mode fleet 2]
    #[arg(long)]
    limit: Option<NonZeroU32>,
    /// How long each holds, in milliseconds [default: 10, in mode cycle 0, in modes hold and fleet
    /// 60000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    hold_ms: Option<u64>,
    /// How often each contender acquires [default: 1, in mode cycle 100]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// How often each acquires before anything is measured; what is counted then are the rounds after
    /// it alone, without the making and ending of sessions
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    warm_up: u32,
    /// Appends a line for each hold to this file: its beginning and end in nanoseconds since 1970
    #[arg(long, value_name = "FILE")]
    holds: Option<PathBuf>,
    /// How many seconds of silence, twice as many at most, end the session of one that has crashed
    /// [default: 15]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    ttl: Option<u64>,
    /// For how many seconds its slot is left alone when its session has ended [default: as the TTL, 60 at
    /// most]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=60))]
    lock_delay: Option<u64>,
    /// Where the semaphore lives in Consul
    #[arg(long, default_value = "examples/contend", value_parser = flags::prefix)]
    prefix: Prefix,
    /// Gives up after this many seconds beyond the time that the holds take
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    /// Prints one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Acquire and release, one after the other: nobody waits
    Cycle,
    /// All at once
    Contend,
    /// One long hold, with nothing to do but to keep it; tells when it began and when it was over
    Hold,
    /// Many semaphores in one process, one slot of each held at once
    Fleet,
}

fn main() -> ExitCode {
    let plan = match Flags::parse().plan() {
        Ok(plan) => plan,
        Err(error) => error.exit(),
    };
    let ran = match plan.flags.mode {
        Mode::Fleet => sail(&plan),
        _ => run(&plan),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

/// The flags with their defaults filled in.
struct Plan {
    flags: Flags,
    contenders: usize,
    participants: usize,
    semaphores: usize,
    waiters: usize,
    transports: Transports,
    limit: NonZeroU32,
    hold: Duration,
    rounds: usize,
    timeout: Duration,
}

impl Flags {
    fn plan(self) -> Result<Plan, clap::Error> {
        let is_fleet = self.mode == Mode::Fleet;
        let default = |cycle, contend, hold| match self.mode {
            Mode::Cycle => cycle,
            Mode::Contend => contend,
            Mode::Hold | Mode::Fleet => hold,
        };
        let contenders = self.contenders.unwrap_or(default(1, 15, 1));
        let participants = self.participants.map_or(contenders.min(4), u32::from);
        let conflict = |text: &str| Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        if participants > contenders {
            return conflict("there are more participants than contenders to spread over them");
        }
        if self.cold && self.mode != Mode::Cycle {
            return conflict("--cold is for --mode cycle");
        }
        if self.mode == Mode::Hold
            && (contenders > 1 || self.rounds.is_some_and(|rounds| rounds > 1))
        {
            return conflict("in --mode hold one holds once");
        }
        if is_fleet && let Some(flag) = self.of_contenders() {
            return conflict(&format!("{flag} is not for --mode fleet"));
        }
        if !is_fleet && (self.semaphores.is_some() || self.waiters.is_some()) {
            return conflict("--semaphores and --waiters are for --mode fleet");
        }
        let (limit, transports) = if is_fleet {
            (2, Transports::Shared)
        } else {
            (3, Transports::Each)
        };
        let limit = self.limit.or(NonZeroU32::new(limit));
        let hold = Duration::from_millis(self.hold_ms.unwrap_or(default(0, 10, 60_000).into()));
        let rounds = self.rounds.unwrap_or(default(100, 1, 1));
        let in_turn = contenders.saturating_mul(rounds.max(self.warm_up));
        Ok(Plan {
            contenders: contenders as usize,
            participants: participants as usize,
            semaphores: self.semaphores.unwrap_or(250).into(),
            waiters: self.waiters.unwrap_or(0).into(),
            transports: self.transports.unwrap_or(transports),
            limit: limit.unwrap_or(NonZeroU32::MIN),
            hold,
            rounds: rounds as usize,
            timeout: Duration::from_secs(self.timeout_s) + hold.saturating_mul(in_turn),
            flags: self,
        })
    }

    /// A flag that was given and that says something of contenders for one semaphore.
    fn of_contenders(&self) -> Option<&'static str> {
        let given = [
            ("--contenders", self.contenders.is_some()),
            ("--participants", self.participants.is_some()),
            ("--rounds", self.rounds.is_some()),
            ("--warm-up", self.warm_up > 0),
            ("--holds", self.holds.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

impl Plan {
    /// The semaphore at `prefix`, as the flags and the agent want it.
    fn builder(&self, prefix: &str, agent: &Agent) -> Builder {
        let flags = &self.flags;
        let mut builder = Semaphore::builder(prefix, self.limit.get());
        if let Some(ttl) = flags.ttl {
            builder = builder.ttl(Duration::from_secs(ttl));
        }
        if let Some(delay) = flags.lock_delay {
            builder = builder.lock_delay(Duration::from_secs(delay));
        }
        match agent.token() {
            Some(token) => builder.token(token.reveal()),
            None => builder,
        }
    }

    fn print(&self, report: &(impl Serialize + Display)) -> Result<(), Failure> {
        if self.flags.json {
            println!("{}", serde_json::to_string(report).map_err(Failure::Json)?);
        } else {
            println!("{report}");
        }
        Ok(())
    }
}

/// Whether all semaphores were granted and kept.
fn sail(plan: &Plan) -> Result<bool, Failure> {
    let hosts = Hosts::new(plan.flags.backend, Agent::find()?)?;
    let builder = |number| {
        let prefix = format!("{}/{number:05}", plan.flags.prefix);
        plan.builder(&prefix, hosts.agent())
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
        eprintln!("error: {complaint}");
    }
    plan.print(&FleetReport::new(&outcome))?;
    Ok(complaints.is_empty())
}

/// Whether the limit was kept and nothing failed.
fn run(plan: &Plan) -> Result<bool, Failure> {
    let flags = &plan.flags;
    let bench = Bench::new(plan)?;
    let agent = bench.hosts.agent();
    // Wrong settings are told before anything is sent.
    let members = bench.members()?;
    let Some(first) = members.first() else {
        return Ok(false);
    };
    let watcher = Watcher::start(agent)?;
    first.host.probe(agent)?;
    // Before and after, since the machine may have other things to do at either time.
    let mut bare = bare::measure(&first.host, agent, &flags.prefix)?;
    let mut failed = 0;
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
    let traffic = match (flags.mode, bench.steady.traffic()) {
        (Mode::Hold, Some(steady)) => steady,
        _ if flags.warm_up > 0 => of_rounds.since(before),
        _ => bench.hosts.traffic().since(before),
    };
    let peaks = watcher.peaks();
    bare.extend([bare::measure(&first.host, agent, &flags.prefix)?]);
    first.handle.destroy(&first.host)?;

    let beliefs = bench.gauge.beliefs();
    if let Some(file) = &flags.holds {
        holds::append(file, &beliefs, &clock).map_err(Failure::Holds)?;
    }
    let report = Report::new(&Measured {
        errors: failed + tell(&outcomes),
        rounds: outcomes
            .iter()
            .flat_map(|outcome| &outcome.rounds)
            .copied()
            .collect(),
        max_held: most_at_once(&beliefs),
        limit: plan.limit,
        hold: plan.hold,
        total,
        bare,
        traffic,
        peak_connections: peaks.connections,
        wall: bench.wall.as_ref().map(|wall| wall.hold()),
    });
    plan.print(&report)?;
    Ok(report.is_well(plan.limit))
}

/// Says what stopped contenders, and how many it stopped.
fn tell(outcomes: &[Outcome]) -> usize {
    let errors = outcomes.iter().filter_map(|outcome| outcome.error.as_ref());
    let errors = errors.inspect(|error| eprintln!("error: {}", with_causes(*error)));
    errors.count()
}

/// A run while it runs.
struct Bench<'a> {
    plan: &'a Plan,
    hosts: Hosts,
    alarm: Alarm,
    gauge: Arc<Gauge>,
    steady: Arc<Steady>,
    /// In mode hold.
    wall: Option<Arc<Wall>>,
}

/// Reads the meter when a hold begins and when it ends.
struct Steady {
    meter: Arc<Meter>,
    began: Mutex<Option<Reading>>,
    ended: Mutex<Option<Reading>>,
}

/// A host and the semaphore as it sees it.
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

    fn members(&self) -> Result<Vec<Member>, Failure> {
        let Plan {
            participants,
            transports,
            ..
        } = *self.plan;
        let member = |host: Host| {
            let handle = host.connect(self.builder())?;
            Ok(Member { host, handle })
        };
        let hosts = self.hosts.several(participants, transports)?;
        hosts.into_iter().map(member).collect()
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
            let contender = self.contender(number, rounds);
            contender.start(&member.handle, &member.host, &mut crew)?;
        }
        // Each gives up by itself; what it then leaves is cleaned up within two TTLs.
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

    /// Each round with a semaphore of its own, whose end belongs to the cycle.
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
        self.plan.builder(prefix, self.hosts.agent())
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

    /// What went over the wire during the last hold.
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
