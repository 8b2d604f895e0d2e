//! Measures the costs of the semaphore on real agents, and compares them with `consul lock -n`
//! where possible.
//!
//! ```text
//! scripts/bench ─► bench ─┬─► real_agent: one agent, one with more connections, a cluster
//!                         ├─► contend (the program of a user), whose report it reads
//!                         └─► consul lock -n 3 … bench hold …, counted from outside
//! ```
//! Each scene has figures, and some must reach a target. The result is one table, a documentation
//! page and a plot.

mod counter;
mod document;
mod election;
mod failure;
mod fleet;
mod go;
mod holder;
mod leading;
mod measures;
mod ours;
mod pairs;
mod peer;
mod plot;
mod row;
mod scenes;
mod sizes;
mod table;
mod world;

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

use clap::{Parser, Subcommand, ValueEnum as _};

use crate::failure::Failure;
use crate::row::Row;
use crate::scenes::{Care, Findings, Scene};
use crate::table::Table;
use crate::world::World;

/// Measures the semaphore on real agents, beside `consul lock -n`, and prints one table.
///
/// Exits with 1 when a figure misses what it must reach.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Flags {
    /// Run only these scenes
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scene>,
    /// Leave out what takes long, and run each scene once
    #[arg(long)]
    quick: bool,
    /// Run each scene this often. The median counts, and the worst run where nothing may go wrong
    /// [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: Option<u16>,
    /// Write COST.md and cost.svg into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What `consul lock` runs: holds for a while, and writes down when
    #[command(hide = true)]
    Hold(holder::Hold),
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.what {
        Some(What::Hold(hold)) => hold.run().map(|()| true),
        None => run(&flags),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {}", told(&failure));
            ExitCode::from(2)
        }
    }
}

/// Runs the scenes. Returns whether every goal was reached.
fn run(flags: &Flags) -> Result<bool, Failure> {
    let world = World::default();
    let machine = machine(&world.agent()?.binary())?;
    let default_runs = if flags.quick { 1 } else { 3 };
    let care = Care {
        runs: flags.runs.unwrap_or(default_runs).into(),
        quick: flags.quick,
    };
    let mut found = Findings::default();
    for scene in Scene::value_variants() {
        if !flags.only.is_empty() && !flags.only.contains(scene) {
            continue;
        }
        eprintln!("… {}", name(*scene));
        if let Err(failure) = scene.measure(&world, care, &mut found) {
            // The other scenes can still be measured. This one has missed its goal.
            eprintln!("error: {}", told(&failure));
            found
                .rows
                .push(Row::new(name(*scene), "not measured", f64::NAN).at_most(0.0));
        }
    }

    print!("{}", Table(&found.rows));
    println!("\n{machine}");
    if let Some(folder) = &flags.out {
        document::write(folder, &found, &machine, &command())?;
    }
    let missed: Vec<_> = found.rows.iter().filter(|row| row.is_missed()).collect();
    for row in &missed {
        let goal = row.goal.map_or_else(String::new, |goal| goal.to_string());
        let reached = row::Short(row.reached);
        eprintln!(
            "missed: {}: {}: {reached} is not {goal}",
            row.scene, row.figure
        );
    }
    Ok(missed.is_empty())
}

fn name(scene: Scene) -> String {
    let value = scene.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What the figures depend on.
fn machine(consul: &Path) -> Result<String, Failure> {
    let output = Command::new(consul).arg("version").output();
    let output = output.map_err(Failure::system("`consul version`"))?;
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.lines().next().unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    // `scripts/bench` says which commit this is, and which day.
    let state = std::env::var("BENCH_STATE").unwrap_or_else(|_| "state unknown".to_owned());
    Ok(format!(
        "{cores} cores, {}, {version}; {state}",
        std::env::consts::OS
    ))
}

/// The command line, so that the run can be repeated.
fn command() -> String {
    let mut command = "scripts/bench".to_owned();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        // The reader does not need to know where it was written to.
        if arg == "--out" {
            args.next();
        } else if !arg.starts_with("--out=") {
            command = format!("{command} {arg}");
        }
    }
    command
}

fn told(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
