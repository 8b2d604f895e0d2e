//! Fifteen contenders share three slots. Prints who holds one when, and draws it in the end.
//!
//! ```sh
//! cargo run --bin quickstart                                      # a Consul in memory
//! CONSUL_HTTP_ADDR=127.0.0.1:8500 cargo run --bin quickstart      # a real agent
//! ```

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use examples::agent::Agent;
use examples::alarm::Alarm;
use examples::backend::{Backend, Hosts};
use examples::contender::{Contender, Observer};
use examples::crew::Crew;
use examples::failure::Failure;
use examples::flags;
use examples::gauge::{Gauge, most_at_once};
use examples::timeline::{Timeline, name};
use examples::{complain, say};
use semaphore_core::{FencingToken, Prefix, Semaphore};

/// Contenders share the slots of one semaphore; each is a participant with connections of its own.
///
/// Runs on a Consul in memory, or on the agent that `CONSUL_HTTP_ADDR` names.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// What sends the requests and runs the contenders
    #[arg(long, value_enum, default_value_t = Backend::Tokio)]
    backend: Backend,
    /// How many contend
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=60))]
    contenders: u16,
    /// How many may hold at once
    #[arg(long, default_value = "3")]
    limit: NonZeroU32,
    /// Where the semaphore lives in Consul
    #[arg(long, default_value = "examples/quickstart", value_parser = flags::prefix)]
    prefix: Prefix,
    /// The name of a node that no agent stands for, on which the sessions are made; it is registered when it is missing
    #[arg(long, value_name = "NAME", value_parser = flags::own_node)]
    own_node: Option<String>,
    /// The longest hold in milliseconds; each is at random between a third of it and this
    #[arg(long, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    hold_ms: u64,
    /// Repeats the holds of another run
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

/// Whether the limit was kept and nothing failed.
fn run(flags: &Flags) -> Result<bool, Failure> {
    let hosts = Hosts::new(flags.backend, Agent::find()?)?;
    let agent = hosts.agent();
    hosts.host()?.probe(agent)?;
    say!(
        "{} contenders, {} slots, {}, {}",
        flags.contenders,
        flags.limit,
        flags.backend,
        agent.describe()
    );

    let contenders = usize::from(flags.contenders);
    let mut random = flags
        .seed
        .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
    let longest = Duration::from_millis(flags.hold_ms);
    // The time of one after the other, and some for an agent that is slow.
    let patience = Duration::from_secs(60) + longest * u32::from(flags.contenders);
    let alarm = Alarm::start()?;
    let gauge = Arc::new(Gauge::default());
    let start = Instant::now();
    let observer = Arc::new(Narrator {
        start,
        limit: flags.limit,
        holding: AtomicUsize::new(0),
    });
    let mut crew = Crew::new();
    let mut members = Vec::new();
    for number in 0..contenders {
        let host = hosts.host()?;
        let mut builder =
            Semaphore::builder(flags.prefix.as_str(), flags.limit.get()).value(name(number));
        if let Some(name) = &flags.own_node {
            builder = builder.own_node(name);
        }
        let builder = match agent.tokens() {
            Some(tokens) => builder.token_source(tokens),
            None => builder,
        };
        let handle = host.connect(builder)?;
        let contender = Contender {
            number,
            holds: vec![longest.mul_f64((1.0 + 2.0 * random.f64()) / 3.0)],
            alarm: alarm.clone(),
            is_alone: true,
            patience,
            gauge: Arc::clone(&gauge),
            observer: observer.clone(),
            wall: None,
        };
        contender.start(&handle, &host, &mut crew)?;
        members.push((handle, host));
    }
    let outcomes = crew.finish(patience * 2)?;

    let mut all_well = true;
    for error in outcomes.iter().filter_map(|outcome| outcome.error.as_ref()) {
        complain!("error: {}", error);
        all_well = false;
    }
    for (handle, host) in &members {
        handle.shutdown(host);
    }
    if let Some((handle, host)) = members.first() {
        handle.destroy(host)?;
    }
    let beliefs = gauge.beliefs();
    let most = most_at_once(&beliefs);
    say!();
    let timeline = Timeline {
        start,
        beliefs: &beliefs,
    };
    say!("{}", timeline.to_string().trim_end());
    say!("max concurrent: {most} of {}", flags.limit);
    let limit = usize::try_from(flags.limit.get()).unwrap_or(usize::MAX);
    Ok(all_well && most <= limit)
}

/// Prints what happens while it happens.
struct Narrator {
    start: Instant,
    limit: NonZeroU32,
    holding: AtomicUsize,
}

impl Observer for Narrator {
    fn granted(&self, contender: usize, token: FencingToken) {
        let holding = self.holding.fetch_add(1, Ordering::SeqCst) + 1;
        self.tell(
            contender,
            format_args!("holds a slot, token {token}"),
            holding,
        );
    }

    fn ended(&self, contender: usize) {
        let holding = self.holding.fetch_sub(1, Ordering::SeqCst) - 1;
        self.tell(contender, format_args!("gives it back"), holding);
    }
}

impl Narrator {
    fn tell(&self, contender: usize, what: std::fmt::Arguments<'_>, holding: usize) {
        let at = self.start.elapsed().as_secs_f64();
        let name = name(contender);
        let what = what.to_string();
        say!(
            "{at:7.3} s  {name} {what:<28} {holding} of {} held",
            self.limit
        );
    }
}
