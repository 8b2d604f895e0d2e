//! Measures how soon a slot is free again after its program ended in a hurry, on a real agent.

use std::env::consts::EXE_SUFFIX;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum as _};
use endings::{How, On, What};
use real_agent::{Agent, StartError};
use semaphore_core::{BuildError, blocking};
use transport_ureq::UreqTransport;

/// Measures how soon a slot is free after its program ended by an error or a panic.
///
/// Exits with 1 if too few were free in time, with 2 if it could not be measured.
#[derive(Debug, Parser)]
struct Flags {
    /// How often to measure each of the rows; every second program panics
    #[arg(long, default_value = "100")]
    runs: u32,
    /// The farewell in milliseconds; zero shows what happens without one
    #[arg(long, default_value = "1000")]
    farewell_ms: u64,
}

/// A slot must be free within this time.
const IN_TIME: Duration = Duration::from_secs(2);

/// This many of a hundred runs may be late.
const MAY_BE_LATE: u32 = 1;

/// The longest wait for a slot: by then, sessions and their lock delays have ended.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Agent(#[from] StartError),
    #[error(transparent)]
    Transport(#[from] BuildError),
    #[error(transparent)]
    Semaphore(#[from] semaphore_core::Error),
    #[error("the program: {0}")]
    Program(#[source] io::Error),
    #[error("the program held nothing; it said: {0}")]
    HeldNothing(String),
}

fn main() -> ExitCode {
    match measure(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("endings: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether enough slots were free in time.
fn measure(flags: &Flags) -> Result<bool, Failure> {
    let agent = Agent::start()?;
    let mut is_well = true;
    println!("on            what        in 2 s  of   p50 ms   max ms");
    for on in On::value_variants() {
        for what in [What::Permit, What::Leadership] {
            let mut times = (0..flags.runs)
                .map(|run| measure_one(&agent, flags, *on, what, run))
                .collect::<Result<Vec<_>, _>>()?;
            times.sort();
            let in_time = times.iter().filter(|it| **it <= IN_TIME).count();
            let late = flags.runs - u32::try_from(in_time).unwrap_or(u32::MAX);
            is_well &= late * 100 <= flags.runs * MAY_BE_LATE;
            let millis = |at: usize| times.get(at).map_or(0, Duration::as_millis);
            println!(
                "{:<13} {:<11} {in_time:>6} {:>3} {:>8} {:>8}",
                on.to_string(),
                what.to_string(),
                flags.runs,
                millis(times.len() / 2),
                millis(times.len().saturating_sub(1)),
            );
        }
    }
    Ok(is_well)
}

/// The time from the program's exit until the slot is free.
fn measure_one(
    agent: &Agent,
    flags: &Flags,
    on: On,
    what: What,
    run: u32,
) -> Result<Duration, Failure> {
    let key = format!("endings/{on}/{what}/{run}");
    let how = if run.is_multiple_of(2) {
        How::Error
    } else {
        How::Panic
    };
    let output = Command::new(program().map_err(Failure::Program)?)
        .args(["--url", &agent.url(), "--key", &key])
        .args(["--on", &on.to_string(), "--what", &what.to_string()])
        .args(["--how", &how.to_string()])
        .args(["--farewell-ms", &flags.farewell_ms.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::Program)?;
    let ended = Instant::now();
    if output.status.success() || output.stdout != b"held\n" {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::HeldNothing(said));
    }
    let backend = UreqTransport::new(agent.url())?;
    Ok(match what {
        What::Permit => {
            let next = blocking::Semaphore::builder(&key, 1).connect(backend)?;
            let _permit = next.acquire_timeout(PATIENCE)?;
            ended.elapsed()
        }
        What::Leadership => {
            let next = blocking::Election::builder(&key).connect(backend)?;
            let _leadership = next.campaign_timeout(PATIENCE)?;
            ended.elapsed()
        }
    })
}

/// The other program in this program's folder.
fn program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.with_file_name(format!("hasty{EXE_SUFFIX}")))
}
