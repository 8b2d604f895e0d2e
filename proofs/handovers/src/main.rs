//! Stops, kills, freezes and cuts off the leader of a service in turn, on a real agent. Measures
//! how soon another one leads.
//!
//! ```text
//!  three times:  one_leader (or leader) ──▶ proxy ──▶ agent
//!                      │ what it prints, with the time
//!                      ▼
//!                  judge: never does an older token speak after a newer one
//! ```
//! Every second, the leading service reports its fencing token.

mod judge;
mod service;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use real_agent::{Agent, StartError};

use crate::judge::{Line, Lines};
use crate::service::{Program, Service};

/// Stops, kills, freezes and cuts off the leader of a service in turn, and measures how soon
/// another one leads.
///
/// Exits with 1 if a former leader reported after the next one, with 2 if it could not be measured.
#[derive(Debug, Parser)]
struct Flags {
    /// How often to do each of these
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Only stop the leader in order, which takes some seconds
    #[arg(long)]
    quick: bool,
    /// The TTL of the sessions in seconds, with the program `leader`
    #[arg(long)]
    ttl: Option<u64>,
    /// The lock delay of the sessions in seconds, with the program `leader`
    #[arg(long)]
    lock_delay: Option<u64>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no agent: {0}")]
    Agent(#[from] StartError),
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
    #[error("nobody leads within {} s; it was said:\n{said}", PATIENCE.as_secs())]
    Late { said: String },
}

/// What happens to a leader.
#[derive(Clone, Copy, Debug)]
enum Way {
    Stopped,
    Killed,
    Frozen,
    CutOff,
}

/// Twice the longest TTL, a lock delay, and some time in addition.
const PATIENCE: Duration = Duration::from_secs(240);

/// How long a leader leads before something happens to it.
const TERM: Duration = Duration::from_secs(3);

/// How long a returning service is watched.
const AFTERWARDS: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether two never led at the same time.
fn run(flags: &Flags) -> Result<bool, Failure> {
    let agent = Agent::start()?;
    let program = Program::new(flags.ttl, flags.lock_delay);
    let lines = Lines::default();
    let mut services = (0..3)
        .map(|number| Service::start(number, &agent, &program, &lines))
        .collect::<Result<Vec<_>, _>>()?;
    let ways: &[Way] = if flags.quick {
        &[Way::Stopped]
    } else {
        &[Way::Stopped, Way::Killed, Way::Frozen, Way::CutOff]
    };
    println!("the leader is   another one leads after");
    let mut leads = wait_for(&lines, 0)?;
    for way in (0..flags.rounds).flat_map(|_| ways) {
        std::thread::sleep(TERM);
        let Some(victim) = services.get_mut(leads.service) else {
            break;
        };
        let began = Instant::now();
        match way {
            Way::Stopped => victim.tell_to_stop()?,
            Way::Killed => victim.kill()?,
            Way::Frozen => victim.freeze()?,
            Way::CutOff => victim.cut_off(),
        }
        leads = wait_for(&lines, leads.token)?;
        let gap = leads.at.saturating_duration_since(began);
        println!("{:<15} {:>6.2} s", format!("{way:?}"), gap.as_secs_f64());
        victim.come_back(&agent, &program, &lines)?;
        std::thread::sleep(AFTERWARDS);
    }
    let overlaps = judge::overlaps(&lines.all());
    for (newer, older) in &overlaps {
        println!(
            "service {} says that it leads with {} after service {} did with {}",
            older.service, older.token, newer.service, newer.token
        );
    }
    println!(
        "{} lines, {} of a former leader",
        lines.all().len(),
        overlaps.len()
    );
    Ok(overlaps.is_empty())
}

/// The first report of a leader with a higher token.
fn wait_for(lines: &Lines, token: u64) -> Result<Line, Failure> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let found = lines.all().into_iter().find(|line| line.token > token);
        if let Some(found) = found {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(Failure::Late { said: lines.said() })
}
