//! Shows which holds last when agents are restarted, servers die, and Consul is silent for a while.
//!
//! ```text
//!  restarts   `contend` ──▶ a client agent (SIGTERM, started again) ──▶ three servers (the leader: SIGKILL, reaped)
//!  freezes    many `contend` ──▶ one agent (SIGSTOP for some seconds, SIGCONT)
//!  drops      the same, but all packets between them are lost
//!  silences   many worlds on virtual time, each with one silence: its longest length for each kind
//! ```
//! Each has a part that must keep every hold, and one that shows that the fault is real. Without a
//! separate node a hold is lost, and a silence that is longer than a lease loses all.

mod failure;
mod program;
mod restarts;
mod silenced;
mod silences;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use silenced::Silence;

/// Shows which holds last when agents are restarted, servers die, and Consul is silent for a while.
///
/// Exits with 1 if a hold was lost that should have lasted. Exits with 2 if it could not be
/// measured, or if the fault had no effect.
#[derive(Debug, Parser)]
struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Restart the client agent with SIGTERM, and then kill the leader with SIGKILL, on each
    /// backend
    Restarts {
        /// How long each holds, in milliseconds
        #[arg(long, default_value = "60000")]
        hold_ms: u64,
    },
    /// Freeze the agent at moments that are spread over the time between two renewals
    Freezes {
        /// How many hold at the same time
        #[arg(long, default_value = "40")]
        trials: NonZeroU32,
        /// How long the agent is frozen, in milliseconds
        #[arg(long, default_value = "11250")]
        silent_ms: u64,
    },
    /// Drop all packets on the loopback interface, at such moments; for a network namespace of its
    /// own
    Drops {
        /// How many hold at the same time
        #[arg(long, default_value = "40")]
        trials: NonZeroU32,
        /// For how long packets are lost, in milliseconds
        #[arg(long, default_value = "10000")]
        silent_ms: u64,
    },
    /// Print the longest silence that costs no hold, for each kind of silence and some TTLs, on
    /// virtual time
    Silences,
}

fn main() -> ExitCode {
    let measured = match Flags::parse().what {
        What::Restarts { hold_ms } => restarts::measure(Duration::from_millis(hold_ms)),
        What::Freezes { trials, silent_ms } => {
            Silence::Frozen.measure(trials.get(), Duration::from_millis(silent_ms))
        }
        What::Drops { trials, silent_ms } => {
            Silence::Dropped.measure(trials.get(), Duration::from_millis(silent_ms))
        }
        What::Silences => silences::measure(),
    };
    match measured {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}
