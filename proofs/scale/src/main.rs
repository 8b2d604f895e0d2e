//! What many callers in several processes cost on one semaphore, counted on virtual time: nothing here depends on how
//! fast this machine is, so that figures of two states of the code can be compared.
//!
//! ```sh
//! cargo run --release -p scale -- --limit 100 --callers 400 --processes 4 --hold-ms 50
//! cargo run --release -p scale              # the scenes of `scripts/scale`
//! ```
//! Each message travels for `--latency-us` on average; Consul itself takes no time.

mod crowd;
mod held;

use std::time::Duration;

use clap::Parser;

use crate::crowd::{Crowd, Figures};

/// Counts what many callers in several processes cost on one semaphore.
#[derive(Debug, Parser)]
struct Flags {
    /// Slots
    #[arg(long)]
    limit: Option<u32>,
    /// Callers in all
    #[arg(long, default_value_t = 100)]
    callers: u32,
    /// Processes that they are spread over
    #[arg(long, default_value_t = 4)]
    processes: u32,
    /// How long each holds
    #[arg(long, default_value_t = 10)]
    hold_ms: u64,
    /// For how long it is counted, after a fifth of that as a warm-up
    #[arg(long, default_value_t = 5_000)]
    time_ms: u64,
    /// How long a message travels on average
    #[arg(long, default_value_t = 200)]
    latency_us: u64,
    /// Of what is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many contend before they are a crowd
    #[arg(long)]
    crowd: Option<usize>,
    /// How many keys of others lie below the prefix
    #[arg(long, default_value_t = 0)]
    others: u32,
    /// How long the value of each of those is
    #[arg(long, default_value_t = 100)]
    others_bytes: usize,
    /// How long the value of each contender is; its process's name otherwise
    #[arg(long)]
    value_bytes: Option<usize>,
    /// What so many permits of one participant cost while they are acquired, held and given back, with its own time
    #[arg(long, value_delimiter = ',')]
    held: Vec<u32>,
    /// For how long those are held
    #[arg(long, default_value_t = 60_000)]
    held_ms: u64,
}

fn main() {
    let flags = Flags::parse();
    let crowd = |limit, callers, processes, hold_ms| Crowd {
        limit,
        callers,
        processes,
        hold: Duration::from_millis(hold_ms),
        time: Duration::from_millis(flags.time_ms),
        latency: Duration::from_micros(flags.latency_us),
        seed: flags.seed,
        watches_whole: flags.crowd,
        others: flags.others,
        others_bytes: flags.others_bytes,
        value_bytes: flags.value_bytes,
    };
    if !flags.held.is_empty() {
        println!("{}", held::Figures::HEAD);
        let latency = Duration::from_micros(flags.latency_us);
        let hold = Duration::from_millis(flags.held_ms);
        for permits in flags.held {
            println!("{}", held::run(permits, hold, latency, flags.seed));
        }
        return;
    }
    println!("{}", Figures::HEAD);
    if let Some(limit) = flags.limit {
        let figures = crowd(limit, flags.callers, flags.processes, flags.hold_ms).run();
        println!("{figures}");
        return;
    }
    for (limit, callers, processes, hold_ms) in SCENES {
        println!("{}", crowd(limit, callers, processes, hold_ms).run());
    }
}

/// Limit, callers, processes, milliseconds of a hold.
const SCENES: [(u32, u32, u32, u64); 18] = [
    (100, 400, 1, 50),
    (100, 400, 4, 50),
    (100, 400, 20, 50),
    (100, 80, 1, 50),
    (100, 80, 4, 50),
    (100, 80, 20, 50),
    (3, 100, 1, 10),
    (3, 100, 2, 10),
    (3, 100, 4, 10),
    (3, 100, 8, 10),
    (3, 100, 15, 10),
    (3, 100, 100, 10),
    (2, 4, 4, 10),
    (2, 8, 8, 10),
    (2, 9, 9, 10),
    (2, 20, 20, 10),
    (100, 90, 90, 2_000),
    (100, 48, 48, 20),
];
