//! Measures the semaphore: what an acquisition costs alone, and how a crowd is served.
//!
//! ```sh
//! cargo run --release --bin contend -- --mode cycle --cold
//! cargo run --release --bin contend -- --mode contend --contenders 100 --hold-ms 10 --json
//! ```
//! Runs on a Consul in memory, or on the agent that `CONSUL_HTTP_ADDR` names.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, ValueEnum};
use examples::agent::Agent;
use examples::backend::{Backend, Handle, Host, Hosts};
use examples::connections;
use examples::contender::{Contender, Nobody, Outcome};
use examples::crew::Crew;
use examples::failure::{Failure, with_causes};
use examples::flags;
use examples::gauge::{Gauge, most_at_once};
use examples::plain_put;
use examples::report::{Measured, Report};
use semaphore_core::{Builder, Prefix, Semaphore};

/// Measures the semaphore on a Consul in memory, or on the agent that `CONSUL_HTTP_ADDR` names.
///
/// Exits with 1 when more than the limit held at once or anything failed.
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
    /// How many hosts, each with connections of its own [default: 4, or as many as contend]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    participants: Option<u16>,
    /// How many contend, spread over the hosts [default: 15, in mode cycle 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    contenders: Option<u32>,
    /// How many may hold at once
    #[arg(long, default_value = "3")]
    limit: NonZeroU32,
    /// How long each holds, in milliseconds [default: 10, in mode cycle 0]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    hold_ms: Option<u64>,
    /// How often each contender acquires [default: 1, in mode cycle 100]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
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
}

fn main() -> ExitCode {
    let plan = match Flags::parse().plan() {
        Ok(plan) => plan,
        Err(error) => error.exit(),
    };
    match run(&plan) {
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
    hold: Duration,
    rounds: usize,
    timeout: Duration,
}

impl Flags {
    fn plan(self) -> Result<Plan, clap::Error> {
        let is_cycle = self.mode == Mode::Cycle;
        let default = |cycle, contend| if is_cycle { cycle } else { contend };
        let contenders = self.contenders.unwrap_or(default(1, 15));
        let participants = self.participants.map_or(contenders.min(4), u32::from);
        let conflict = |text: &str| Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        if participants > contenders {
            return conflict("there are more participants than contenders to spread over them");
        }
        if self.cold && !is_cycle {
            return conflict("--cold is for --mode cycle");
        }
        let hold = Duration::from_millis(self.hold_ms.unwrap_or(default(0, 10).into()));
        let rounds = self.rounds.unwrap_or(default(100, 1));
        let in_turn = contenders.saturating_mul(rounds);
        Ok(Plan {
            contenders: contenders as usize,
            participants: participants as usize,
            hold,
            rounds: rounds as usize,
            timeout: Duration::from_secs(self.timeout_s) + hold.saturating_mul(in_turn),
            flags: self,
        })
    }
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
    let connections = connections::Watcher::start(agent);
    first.host.probe(agent)?;
    let puts = plain_put::measure(&first.host, agent, &flags.prefix)?;

    let before = bench.hosts.traffic();
    let began = Instant::now();
    let outcomes = match flags.mode {
        Mode::Contend => bench.at_once(&members)?,
        Mode::Cycle => bench.in_turn(&members)?,
    };
    let total = began.elapsed();
    for member in &members {
        member.handle.shutdown(&member.host);
    }
    let traffic = bench.hosts.traffic().since(before);
    let peak_connections = connections.peak();
    first.handle.destroy(&first.host)?;

    let errors = outcomes.iter().filter_map(|outcome| outcome.error.as_ref());
    let errors = errors.inspect(|error| eprintln!("error: {}", with_causes(*error)));
    let report = Report::new(&Measured {
        errors: errors.count(),
        rounds: outcomes
            .iter()
            .flat_map(|outcome| &outcome.rounds)
            .copied()
            .collect(),
        max_held: most_at_once(&bench.gauge.beliefs()),
        limit: flags.limit,
        hold: plan.hold,
        total,
        put_p50: puts.at(50),
        traffic,
        peak_connections,
    });
    if flags.json {
        println!("{}", serde_json::to_string(&report).map_err(Failure::Json)?);
    } else {
        println!("{report}");
    }
    Ok(report.is_well(flags.limit))
}

/// A run while it runs.
struct Bench<'a> {
    plan: &'a Plan,
    hosts: Hosts,
    gauge: Arc<Gauge>,
}

/// A host and the semaphore as it sees it.
struct Member {
    host: Host,
    handle: Handle,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Failure> {
        Ok(Self {
            plan,
            hosts: Hosts::new(plan.flags.backend, Agent::find()?)?,
            gauge: Arc::default(),
        })
    }

    fn members(&self) -> Result<Vec<Member>, Failure> {
        let member = |_| {
            let host = self.hosts.host()?;
            let handle = host.connect(self.builder())?;
            Ok(Member { host, handle })
        };
        (0..self.plan.participants).map(member).collect()
    }

    fn at_once(&self, members: &[Member]) -> Result<Vec<Outcome>, Failure> {
        let mut crew = Crew::new();
        for (number, member) in self.spread(members) {
            let contender = self.contender(number, self.plan.rounds);
            contender.start(&member.handle, &member.host, &mut crew)?;
        }
        // Each gives up by itself; what it then leaves is cleaned up within two TTLs.
        crew.finish(self.plan.timeout + Duration::from_secs(60))
    }

    fn in_turn(&self, members: &[Member]) -> Result<Vec<Outcome>, Failure> {
        let turn = |(number, member): (usize, &Member)| {
            if self.plan.flags.cold {
                self.cold(number, &member.host)
            } else {
                let contender = self.contender(number, self.plan.rounds);
                Ok(contender.run_here(&member.handle, &member.host))
            }
        };
        self.spread(members).map(turn).collect()
    }

    /// Each round with a semaphore of its own, whose end belongs to the cycle.
    fn cold(&self, number: usize, host: &Host) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        for _ in 0..self.plan.rounds {
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
            patience: self.plan.timeout,
            gauge: Arc::clone(&self.gauge),
            observer: Arc::new(Nobody),
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
        let flags = &self.plan.flags;
        let builder = Semaphore::builder(flags.prefix.as_str(), flags.limit.get());
        match self.hosts.agent().token() {
            Some(token) => builder.token(token.reveal()),
            None => builder,
        }
    }
}
