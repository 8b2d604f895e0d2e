//! The cost of many callers in several processes on one semaphore, counted on virtual time. It does
//! not depend on this machine's speed, so the figures of two versions of the code can be compared.
//!
//! ```sh
//! cargo run --release -p scale -- --limit 100 --callers 400 --processes 4 --hold-ms 50
//! cargo run --release -p scale              # all sizes of one semaphore
//! cargo run --release -p scale -- --beyond hosts,waiters,elections
//! ```
//! Each message travels for `--latency-us` on average; Consul takes no time.

mod beyond;
mod crowd;
mod held;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::beyond::{Fleet, Reached, Scene};
use crate::crowd::{Crowd, Figures};

/// Counts the cost of many callers in several processes on one semaphore.
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
    /// How long to count, after a fifth of that as a warm-up
    #[arg(long, default_value_t = 5_000)]
    time_ms: u64,
    /// How long a message travels on average
    #[arg(long, default_value_t = 200)]
    latency_us: u64,
    /// The seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many keys of others lie below the prefix
    #[arg(long, default_value_t = 0)]
    others: u32,
    /// The size of each of their values
    #[arg(long, default_value_t = 100)]
    others_bytes: usize,
    /// The size of each contender's value [default: its process's name]
    #[arg(long)]
    value_bytes: Option<usize>,
    /// Measure the cost of this many permits of one participant, with its own time, while they are
    /// acquired, held and released
    #[arg(long, value_delimiter = ',')]
    held: Vec<u32>,
    /// Count the requests of fleets that are larger than one machine to Consul's servers
    #[arg(long, value_enum, value_delimiter = ',')]
    beyond: Vec<Scene>,
    /// The number of hosts in these fleets
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    hosts: u32,
    /// The TTL of their sessions, in seconds
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    ttl_s: u64,
    /// The number of keys that the semaphore with ten thousand waiters is split into
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    parts: u32,
    /// Fail if this program used more memory for them, in MB
    #[arg(long)]
    most_mb: Option<u64>,
    /// How many seconds they settle before counting begins
    #[arg(long, default_value_t = 90)]
    settle_s: u64,
    /// How long the permits of `--held` are held, in milliseconds
    #[arg(long, default_value_t = 60_000)]
    held_ms: u64,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let crowd = |limit, callers, processes, hold_ms| Crowd {
        limit,
        callers,
        processes,
        hold: Duration::from_millis(hold_ms),
        time: Duration::from_millis(flags.time_ms),
        latency: Duration::from_micros(flags.latency_us),
        seed: flags.seed,
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
        return ExitCode::SUCCESS;
    }
    if !flags.beyond.is_empty() {
        println!("{}", Reached::HEAD);
        for scene in flags.beyond {
            let fleet = Fleet {
                scene,
                hosts: flags.hosts,
                ttl: Duration::from_secs(flags.ttl_s),
                parts: flags.parts,
                settling: Duration::from_secs(flags.settle_s),
                time: Duration::from_millis(flags.time_ms),
                latency: Duration::from_micros(flags.latency_us),
                seed: flags.seed,
            };
            let reached = fleet.run();
            println!("{reached}");
            let most = flags.most_mb.map(|most| most * 1_000_000);
            if most.is_some_and(|most| reached.memory() > most) {
                eprintln!("error: it took more memory than it may");
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    println!("{}", Figures::HEAD);
    if let Some(limit) = flags.limit {
        let figures = crowd(limit, flags.callers, flags.processes, flags.hold_ms).run();
        println!("{figures}");
        return ExitCode::SUCCESS;
    }
    for (limit, callers, processes, hold_ms) in SCENES {
        println!("{}", crowd(limit, callers, processes, hold_ms).run());
    }
    ExitCode::SUCCESS
}

/// The limit, callers, processes, and milliseconds of a hold.
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
