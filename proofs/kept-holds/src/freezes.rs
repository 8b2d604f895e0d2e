//! Freezes the agent of many holders at many moments between two renewals.

use std::thread;
use std::time::Duration;

use real_agent::Agent;

use crate::failure::Failure;
use crate::program::{Program, now, until_held};

/// With a TTL of 15 s, renewals come at shorter intervals than this.
const APART: Duration = Duration::from_millis(1_250);

/// The longest time to start all of them. They hold for this long after it.
const STARTING: Duration = Duration::from_secs(40);
const AFTER: Duration = Duration::from_secs(5);

/// This is longer than any lease with that TTL.
const TOO_LONG: Duration = Duration::from_millis(14_500);

/// Returns how many lost their slot.
///
/// # Errors
/// [`Failure`] if it can't be measured. A loss is not a failure.
pub(crate) fn measure(trials: u32, silent: Duration) -> Result<usize, Failure> {
    let lost = freeze(trials, silent)?;
    println!("silent for {silent:?}: lost {lost} of {trials}");
    let struck = freeze(trials, TOO_LONG)?;
    println!("silent for {TOO_LONG:?}: lost {struck} of {trials}");
    if struck == 0 {
        return Err(Failure::NotStruck(
            "all outlasted a silence that is longer than a lease",
        ));
    }
    Ok(lost)
}

/// Freezes an agent with this many holders for this long.
fn freeze(trials: u32, silent: Duration) -> Result<usize, Failure> {
    let mut agent = Agent::start()?;
    let hold = STARTING + silent + AFTER;
    let mut programs = Vec::new();
    for trial in 0..trials {
        let prefix = format!("freezes/{trial:03}");
        let backend = ["tokio", "threads", "smol"][trial as usize % 3];
        let program = Program::start(&agent.url(), &prefix, hold, &["--backend", backend])?;
        programs.push((prefix, program));
        thread::sleep(APART / trials);
    }
    for (prefix, _) in &programs {
        until_held(&agent.client(), prefix)?;
    }
    // By then, each has been renewed.
    thread::sleep(APART * 2);
    agent
        .stop()
        .map_err(Failure::system("the agent can't be frozen"))?;
    thread::sleep(silent);
    agent
        .cont()
        .map_err(Failure::system("the agent can't be continued"))?;
    let over = now();
    let mut lost = 0;
    for (_, program) in programs {
        let said = program.said()?;
        if !said.is_lost && said.ended < over {
            return Err(Failure::TooShort);
        }
        lost += usize::from(said.is_lost);
    }
    Ok(lost)
}
