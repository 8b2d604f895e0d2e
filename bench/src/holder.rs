//! The child of a `consul lock`: it holds for a while, and records when.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use examples::gauge::Belief;
use examples::holds::{self, Clock};

use crate::failure::Failure;

const POLL: Duration = Duration::from_millis(1);

/// How to hold.
#[derive(Clone, Debug, Args)]
pub(crate) struct Hold {
    /// For how long, in milliseconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub(crate) millis: u64,
    /// Where it writes down when it held
    #[arg(long)]
    pub(crate) holds: PathBuf,
    /// Go on holding until this file exists, a minute at most
    #[arg(long)]
    pub(crate) until: Option<PathBuf>,
}

impl Hold {
    /// Holds, and writes down when.
    ///
    /// # Errors
    /// If it can't be written down.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        const LONGEST: Duration = Duration::from_secs(60);
        let clock = Clock::read();
        let since = Instant::now();
        thread::sleep(Duration::from_millis(self.millis));
        if let Some(gate) = &self.until {
            while !gate.exists() && since.elapsed() < LONGEST {
                thread::sleep(POLL);
            }
        }
        let belief = Belief {
            contender: 0,
            since,
            until: Instant::now(),
        };
        holds::append(&self.holds, &[belief], &clock).map_err(Failure::system("no holds written"))
    }
}
