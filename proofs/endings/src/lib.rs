//! How soon a slot is free again after its program ended in a hurry.
//!
//! ```text
//!  `endings` ──starts──▶ `hasty`: holds, and then its `main` returns an error, or panics
//!      │                    │
//!      │ acquires again     ▼ exits
//!      └──────────▶ the slot: how long that takes from the exit on
//! ```

use std::fmt;

use clap::{Parser, ValueEnum};

/// The options of a program that holds and ends.
#[derive(Clone, Debug, Parser)]
pub struct Hasty {
    /// The URL of Consul's HTTP API
    #[arg(long)]
    pub url: String,
    /// The prefix or key
    #[arg(long)]
    pub key: String,
    /// What runs the driver
    #[arg(long)]
    pub on: On,
    /// What to hold
    #[arg(long)]
    pub what: What,
    /// How to end
    #[arg(long)]
    pub how: How,
    /// The farewell in milliseconds
    #[arg(long)]
    pub farewell_ms: u64,
}

/// What runs a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// A tokio runtime with threads
    Tokio,
    /// A tokio runtime on the calling thread
    TokioCurrent,
    /// The transport's own thread
    Threads,
    /// The transport's own thread, in a program that runs on smol
    Smol,
}

/// What a program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// The only slot of a semaphore
    Permit,
    /// The lead
    Leadership,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// `main` returns an error
    Error,
    /// `main` panics
    Panic,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokio => "tokio",
            Self::TokioCurrent => "tokio-current",
            Self::Threads => "threads",
            Self::Smol => "smol",
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permit => "permit",
            Self::Leadership => "leadership",
        })
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Panic => "panic",
        })
    }
}
