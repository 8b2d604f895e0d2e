//! Deliberate defects of the semaphore: whether the checks find them, and how soon.
//!
//! A defect is found by a world that breaks the promise that the defect names, and that is clean
//! without the defect.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use semaphore_core::defect::{Defect, switch_on as switch};
use simulation::check::Violation;

use crate::arguments::{Arguments, Defects, Only, Worlds};
use crate::campaign;

/// One line per defect: its name, and a seed that found it. `--remember` writes it.
const REMEMBERED: &str = include_str!("../remembered.txt");

/// From now on, the semaphore has this defect.
pub(crate) fn switch_on(name: &str) -> Result<(), String> {
    let defect = name.parse::<Defect>().map_err(|_| {
        let all: Vec<_> = Defect::ALL.iter().map(ToString::to_string).collect();
        format!("there is no defect {name:?}; there are: {}", all.join(", "))
    })?;
    switch(Some(defect));
    Ok(())
}

/// What worlds of seeds don't show. Consul refuses the transaction that prunes, which checks that no
/// holder has its key: the core's tests alone find `prune-filtered`. The others need more requests at
/// once, a rarer moment or more followers than worlds of some twenty hosts have: for each of them a
/// world is built that leads there (`tests/directed.rs`).
const NOT_IN_WORLDS: [Defect; 10] = [
    Defect::GivenUpPollForgotten,
    Defect::LatencyIgnored,
    Defect::LeaseFromAnswer,
    Defect::PruneFiltered,
    Defect::PruneAtOnce,
    Defect::RenewalsBehindPolls,
    Defect::RenewalUnconfirmed,
    Defect::RenewalsInTurn,
    Defect::SessionKeptForLateKeys,
    Defect::SharedChangeUnread,
];

/// Whether such worlds can show the defect.
fn concerns(only: Only, defect: Defect) -> bool {
    if NOT_IN_WORLDS.contains(&defect) {
        return false;
    }
    let is_shared = matches!(
        defect,
        Defect::LeaseMarginGone
            | Defect::LeaseFromAnswer
            | Defect::LeaseEndIgnored
            | Defect::RenewalStoppedAfterTransient
            | Defect::TransientTakenForLoss
            | Defect::MissingSessionBelieved
            | Defect::UnknownTakenForNotApplied
            | Defect::EvictionUnnoticed
            | Defect::OlderViewAccepted
            | Defect::RetryWithoutBackoff
            | Defect::SessionLeftBehind
            | Defect::LockDelayShort
            | Defect::OwnNodeForgotten
    );
    let is_of_elections = matches!(
        defect,
        Defect::AnothersKeyBelieved
            | Defect::ForeignKeyAnnounced
            | Defect::FormerTermForgotten
            | Defect::ElectionUnfenced
            | Defect::SilenceUntold
            | Defect::TokenRestarts
            | Defect::LockDelayIgnored
            | Defect::RefusalTakenForGood
            | Defect::ValueWithoutAcquire
            | Defect::ValueToldUnshown
            | Defect::FailureTakenForLoss
            | Defect::KeyLeftLocked
    );
    match only {
        Only::Any | Only::Shared | Only::Clients => true,
        Only::Elections => is_shared || is_of_elections,
        Only::Semaphores => !is_of_elections,
    }
}

/// Runs schedules with each defect until one shows it. The remembered one comes first, unless a
/// search is asked for. Fails if a defect stays hidden.
pub(crate) fn find_all(arguments: &Arguments) -> ExitCode {
    let remembers =
        arguments.defects == Defects::Remembered && arguments.worlds == Worlds::default();
    let (mut tried, mut hidden) = (0, 0);
    let (mut stale, mut table) = (Vec::new(), String::new());
    println!("{:<32} invariant  schedules", "defect");
    for defect in Defect::ALL {
        if !concerns(arguments.worlds.only, *defect) {
            continue;
        }
        tried += 1;
        switch(Some(*defect));
        let name = defect.to_string();
        let known = remembered(&name).filter(|_| remembers);
        let found = known.and_then(|seed| Some((seed, try_one(seed, *defect, arguments)?)));
        if let Some((seed, violation)) = found {
            println!("{name:<32} {:<9}  1: seed {seed}", violation.invariant);
            let _ = writeln!(table, "{name} {seed}");
            continue;
        }
        if remembers {
            stale.push(name.clone());
        }
        if let Some((seed, violation)) = search(*defect, arguments) {
            let took = seed - arguments.seeds().start + 1;
            println!("{name:<32} {:<9}  {took}", violation.invariant);
            let _ = writeln!(table, "{name} {seed}");
        } else {
            hidden += 1;
            println!("{name:<32} not found in {}", arguments.most);
        }
    }
    println!("{tried} defects, {hidden} not found");
    if !stale.is_empty() {
        println!(
            "stale, so that these were searched for: {}\n\
             renew what is remembered: scripts/simulate --defects --most 20000 \
             --remember proofs/simulation/remembered.txt",
            stale.join(", ")
        );
    }
    if let Some(path) = &arguments.remember
        && let Err(error) = fs::write(path, table)
    {
        eprintln!("simulate: {path}: {error}");
        return ExitCode::from(2);
    }
    if hidden == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The remembered seed of this defect.
fn remembered(name: &str) -> Option<u64> {
    let mut lines = REMEMBERED.lines().filter_map(|line| line.split_once(' '));
    let (_, seed) = lines.find(|(defect, _)| *defect == name)?;
    seed.parse().ok()
}

/// How this world breaks the promise, if it does and is clean without the defect.
fn try_one(seed: u64, defect: Defect, arguments: &Arguments) -> Option<Violation> {
    let run = || {
        let seeds = seed..seed.saturating_add(1);
        let result = campaign::run_all(seeds, arguments.worlds, 1, |_| true);
        result.violations.into_iter().next().map(|(_, it)| it)
    };
    let violation = run().filter(|it| it.invariant.to_string() == defect.promise())?;
    switch(None);
    let control = run();
    switch(Some(defect));
    if let Some(of_all) = &control {
        println!("seed {seed} violates {of_all} without any defect");
    }
    control.is_none().then_some(violation)
}

fn search(defect: Defect, arguments: &Arguments) -> Option<(u64, Violation)> {
    let mut first = arguments.seeds().start;
    let end = first.saturating_add(arguments.most);
    let is_its = |it: &Violation| it.invariant.to_string() == defect.promise();
    while first < end {
        let result = campaign::run_all(first..end, arguments.worlds, arguments.jobs, is_its);
        let mut found = result.violations.iter().filter(|(_, it)| is_its(it));
        let (seed, _) = found.next()?;
        if let Some(violation) = try_one(*seed, defect, arguments) {
            return Some((*seed, violation));
        }
        first = seed.saturating_add(1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_remembered_for_each_defect_and_for_nothing_else() {
        let mut count = 0;
        for defect in Defect::ALL {
            let is_shown = concerns(Only::Any, *defect);
            assert_eq!(
                remembered(&defect.to_string()).is_some(),
                is_shown,
                "{defect}"
            );
            count += usize::from(is_shown);
        }
        assert_eq!(REMEMBERED.lines().count(), count);
    }
}
