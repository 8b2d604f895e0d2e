//! The run of each seed as text, so two versions of the code can be compared.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use simulation::plan::Plan;
use simulation::run;

use crate::arguments::{Arguments, Shows};

/// Prints each seed's story, or its digest, in the order of the seeds.
pub(crate) fn show(arguments: &Arguments) -> ExitCode {
    let seeds = arguments.seeds();
    let next = AtomicU64::new(seeds.start);
    let shown = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if let Some(plan) = arguments.worlds.plan(seed) {
                let text = text_of(seed, &plan, arguments.shows);
                let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                shown.insert(seed, text);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(work);
        }
    });
    let shown = shown.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut out = io::stdout().lock();
    let written = shown.values().try_for_each(|text| writeln!(out, "{text}"));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the output.
        Err(_) => ExitCode::FAILURE,
    }
}

fn text_of(seed: u64, plan: &Plan, shows: Shows) -> String {
    let outcome = run(plan, true);
    let end = outcome.violation.map(|it| format!("violates {it}"));
    let story = format!("{plan}\n{}{}", outcome.story, end.unwrap_or_default());
    if shows == Shows::Story {
        return format!("== seed {seed}\n\n{story}");
    }
    let mut digest = DefaultHasher::new();
    story.hash(&mut digest);
    format!("{seed} {:016x}", digest.finish())
}
