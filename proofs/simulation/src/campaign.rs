//! Many seeds on several threads.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use simulation::check::Violation;
use simulation::{Figures, run};

use crate::arguments::Worlds;

/// The result of a range of seeds.
#[derive(Debug, Default)]
pub(crate) struct Campaign {
    pub(crate) figures: Figures,
    /// The violations by seed.
    pub(crate) violations: Vec<(u64, Violation)>,
    took: Duration,
}

/// Runs all of these worlds, or stops at the first violation that is looked for.
pub(crate) fn run_all(
    seeds: Range<u64>,
    worlds: Worlds,
    jobs: usize,
    is_looked_for: impl Fn(&Violation) -> bool + Sync,
) -> Campaign {
    let start = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let is_found = AtomicBool::new(false);
    let sum = Mutex::new(Campaign::default());
    let work = || {
        let mut own = Campaign::default();
        while !is_found.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let Some(plan) = worlds.plan(seed) else {
                continue;
            };
            let outcome = run(&plan, false);
            own.figures.add(&outcome.figures);
            if let Some(violation) = outcome.violation {
                is_found.fetch_or(is_looked_for(&violation), Ordering::Relaxed);
                own.violations.push((seed, violation));
            }
        }
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.figures.add(&own.figures);
        sum.violations.append(&mut own.violations);
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let mut campaign = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    campaign.violations.sort_by_key(|(seed, _)| *seed);
    campaign.took = start.elapsed();
    campaign
}

impl Campaign {
    /// The speed.
    pub(crate) fn pace(&self) -> impl fmt::Display {
        let seconds = self.took.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = self.figures.schedules as f64 / seconds.max(f64::EPSILON);
        format!("{seconds:>12.1} s, {rate:.0} schedules a second")
    }
}
