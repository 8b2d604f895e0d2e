//! Silences the agent of many holders at many moments between two renewals.

use std::io;
use std::process::Command;
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

/// Why nothing is heard of an agent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Silence {
    /// It gets no time to run. What is sent to it meanwhile is read afterwards.
    Frozen,
    /// Every packet on the loopback interface is lost, and sent again by TCP alone.
    Dropped,
}

impl Silence {
    /// Returns how many lost their slot.
    ///
    /// # Errors
    /// [`Failure`] if it can't be measured. A loss is not a failure.
    pub(crate) fn measure(self, trials: u32, silent: Duration) -> Result<usize, Failure> {
        let lost = self.strike(trials, silent)?;
        println!("silent for {silent:?}: lost {lost} of {trials}");
        let struck = self.strike(trials, TOO_LONG)?;
        println!("silent for {TOO_LONG:?}: lost {struck} of {trials}");
        if struck == 0 {
            return Err(Failure::NotStruck(
                "all outlasted a silence that is longer than a lease",
            ));
        }
        Ok(lost)
    }

    /// Silences an agent with this many holders for this long. Returns how many of them lost.
    fn strike(self, trials: u32, silent: Duration) -> Result<usize, Failure> {
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
        self.begin(&mut agent)?;
        thread::sleep(silent);
        self.end(&mut agent)?;
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

    fn begin(self, agent: &mut Agent) -> Result<(), Failure> {
        match self {
            Silence::Frozen => agent.stop(),
            // This queue takes each packet, and sends none.
            Silence::Dropped => queue("replace", &["blackhole"]),
        }
        .map_err(Failure::system("the agent can't be silenced"))
    }

    fn end(self, agent: &mut Agent) -> Result<(), Failure> {
        match self {
            Silence::Frozen => agent.cont(),
            Silence::Dropped => queue("delete", &[]),
        }
        .map_err(Failure::system("the agent can't be heard again"))
    }
}

/// Changes what becomes of the packets on the loopback interface of this network namespace.
fn queue(change: &str, kind: &[&str]) -> io::Result<()> {
    let mut command = Command::new("tc");
    command
        .args(["qdisc", change, "dev", "lo", "root"])
        .args(kind);
    if command.status()?.success() {
        return Ok(());
    }
    Err(io::Error::other("tc failed"))
}
