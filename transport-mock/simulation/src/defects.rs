//! Deliberate defects of the semaphore: whether the checks find them, and how soon.

#[cfg(semaphore_defects)]
pub(crate) use with::{find_all, switch_on};
#[cfg(not(semaphore_defects))]
pub(crate) use without::{find_all, switch_on};

#[cfg(semaphore_defects)]
mod with {
    use std::process::ExitCode;

    use semaphore_core::defect::{Defect, switch_on as switch};

    use crate::arguments::{Arguments, Only};
    use crate::campaign;

    /// From now on the semaphore has this defect.
    pub(crate) fn switch_on(name: &str) -> Result<(), String> {
        let defect = name.parse::<Defect>().map_err(|_| {
            let all: Vec<_> = Defect::ALL.iter().map(ToString::to_string).collect();
            format!("there is no defect {name:?}; there are: {}", all.join(", "))
        })?;
        switch(Some(defect));
        Ok(())
    }

    /// Whether there can be such worlds that show it.
    fn concerns(only: Only, defect: Defect) -> bool {
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
        );
        let is_of_elections = matches!(
            defect,
            Defect::AnothersKeyBelieved
                | Defect::LockDelayIgnored
                | Defect::RefusalTakenForGood
                | Defect::ValueWithoutAcquire
                | Defect::ValueToldUnshown
                | Defect::FailureTakenForLoss
                | Defect::KeyLeftLocked
        );
        match only {
            Only::Any => true,
            Only::Elections => is_shared || is_of_elections,
            Only::Semaphores => !is_of_elections,
        }
    }

    /// Runs schedules with each defect until one shows it. Fails when one stays hidden.
    pub(crate) fn find_all(arguments: &Arguments) -> ExitCode {
        let (only, mut tried, mut hidden) = (arguments.only, 0, 0);
        println!("{:<32} invariant  schedules", "defect");
        for defect in Defect::ALL.iter().filter(|it| concerns(only, **it)) {
            tried += 1;
            switch(Some(*defect));
            let first = arguments.seeds().start;
            let seeds = first..first.saturating_add(arguments.most);
            let result = campaign::run_all(seeds, only, arguments.jobs, true);
            let name = defect.to_string();
            if let Some((seed, violation)) = result.violations.first() {
                let (invariant, took) = (violation.invariant, seed - first + 1);
                println!("{name:<32} {invariant:<9}  {took}");
            } else {
                hidden += 1;
                println!("{name:<32} not found in {}", arguments.most);
            }
        }
        println!("{tried} defects, {hidden} not found");
        if hidden == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(semaphore_defects))]
mod without {
    use std::process::ExitCode;

    use crate::arguments::Arguments;

    const WHY: &str = "this build has no defects; scripts/simulate makes one that has";

    pub(crate) fn switch_on(_: &str) -> Result<(), String> {
        Err(WHY.into())
    }

    pub(crate) fn find_all(_: &Arguments) -> ExitCode {
        eprintln!("simulate: {WHY}");
        ExitCode::from(2)
    }
}
