//! Measures who believes what when a session ends early.
//!
//! ```text
//!  row ─┬─ Cluster: three servers, dead ones are reaped as by default
//!       ├─ the holder:  `contend` or `leader`, talks to server A alone ◄─ A is killed, frozen, cut off
//!       └─ the waiter:  the same program, talks to server B alone
//! ```
//! Both programs print when they held, by the machine's clock. Each row has a separate cluster.

mod failure;
mod program;
mod row;
mod table;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::Parser;

use crate::failure::Failure;
use crate::row::{Measured, Row, rows};

/// Measures who believes what when a session ends early.
///
/// Exits with 1 if two held at the same time, with 2 if a row could not be measured.
#[derive(Debug, Parser)]
struct Flags {
    /// Measure one row, which takes less than a minute
    #[arg(long, conflicts_with = "row")]
    quick: bool,
    /// Measure only rows whose names contain all of these
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    row: Vec<String>,
    /// Print the names of the rows
    #[arg(long)]
    list: bool,
    /// How many rows to measure at the same time
    #[arg(long, default_value = "3")]
    jobs: NonZeroUsize,
    /// The lock delay of all sessions in seconds, instead of the default
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=60))]
    lock_delay: Option<u64>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let rows = if flags.quick {
        vec![Row::quick()]
    } else {
        let named = |row: &Row| {
            let name = row.to_string();
            flags.row.iter().all(|text| name.contains(text.as_str()))
        };
        rows().into_iter().filter(named).collect()
    };
    if flags.list {
        for row in rows {
            println!("{row}");
        }
        return ExitCode::SUCCESS;
    }
    if rows.is_empty() {
        eprintln!("error: no row is named so: see --list");
        return ExitCode::from(2);
    }
    let outcomes = measure(&rows, flags.jobs, flags.lock_delay);
    table::print(&outcomes);
    table::verdict(&outcomes)
}

type Outcomes = Vec<(Row, Result<Measured, Failure>)>;

/// Measures this many at the same time, each on a separate cluster.
fn measure(rows: &[Row], jobs: NonZeroUsize, lock_delay: Option<u64>) -> Outcomes {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(rows.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(row) = rows.get(number) else {
                        return;
                    };
                    let outcome = row::measure(row, lock_delay);
                    eprintln!("{}", table::line(row, &outcome));
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes.push((number, (*row, outcome)));
                }
            });
        }
    });
    let mut outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
