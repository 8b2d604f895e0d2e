//! `simulate`: runs plans by their seeds, reports the figures, and says how to repeat a failure.

mod arguments;
mod campaign;
mod defects;
mod stories;

use std::process::ExitCode;

use simulation::check::Violation;
use simulation::{run, shrink};

use self::arguments::{Arguments, Defects, Shows, USAGE, Worlds};

/// The most other plans that are run to reduce a failing one.
const MOST_SHRINKING: usize = 2_000;

fn main() -> ExitCode {
    let arguments = match Arguments::parse() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("simulate: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A panic inside a run is a violation. It is reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    match &arguments.defects {
        Defects::None => {}
        Defects::One(name) => {
            if let Err(error) = defects::switch_on(name) {
                eprintln!("simulate: {error}");
                return ExitCode::from(2);
            }
        }
        Defects::Remembered | Defects::Searched => return defects::find_all(&arguments),
    }
    if arguments.shows != Shows::Nothing {
        return stories::show(&arguments);
    }
    let result = campaign::run_all(arguments.seeds(), arguments.worlds, arguments.jobs, |_| {
        arguments.fails_fast
    });
    println!("{}", result.figures);
    println!("{}", result.pace());
    for (seed, violation) in &result.violations {
        println!("seed {seed} violates {violation}");
    }
    let missed = arguments.branches_missed(&result.figures);
    for branch in &missed {
        println!("the branch {branch} was never taken");
    }
    let idle = arguments.idle_checks(&result.figures);
    for check in &idle {
        println!("{check}");
    }
    let Some((seed, violation)) = result.violations.first() else {
        return if missed.is_empty() && idle.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    };
    if arguments.tells {
        tell(*seed, violation, arguments.worlds);
    }
    ExitCode::FAILURE
}

/// Tells the story of a failing seed, as short as possible.
fn tell(seed: u64, violation: &Violation, worlds: Worlds) {
    let Some(plan) = worlds.plan(seed) else {
        return;
    };
    let shrunk = shrink(&plan, violation, MOST_SHRINKING);
    let outcome = run(&shrunk.plan, true);
    println!("\n== seed {seed}, cut down in {} runs\n", shrunk.runs);
    println!("{}\n{}", shrunk.plan, outcome.story);
    println!("{}", shrunk.violation);
    println!("repeat: scripts/simulate --from {seed} --seeds 1{worlds}");
}
