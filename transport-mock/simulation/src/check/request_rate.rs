//! L3: a participant's requests stay under a ceiling in every window of time, however short.
//!
//! Reads: 100 a second in the long run (on a clock that may run fast), 50 at once, and as many again as
//! it writes. Of writes there may be 50 a second in the long run and 150 at once: every failed attempt
//! is followed by a growing wait, and what users and losses cause comes in bursts.

use std::collections::BTreeMap;

use semaphore_core::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::Happening;
use crate::plan::FASTEST_CLOCK;

const READS: Ceiling = Ceiling {
    per_second: 100.0 * FASTEST_CLOCK,
    at_once: 60.0,
};
const WRITES: Ceiling = Ceiling {
    per_second: 50.0,
    at_once: 150.0,
};

#[derive(Default)]
pub(super) struct RequestRate {
    hosts: BTreeMap<usize, Rates>,
}

#[derive(Default)]
struct Rates {
    reads: Level,
    writes: Level,
}

struct Ceiling {
    per_second: f64,
    at_once: f64,
}

/// A bucket that each request fills by one and time empties: it flows over when any window of time
/// has seen more than the ceiling allows.
#[derive(Default)]
struct Level {
    level: f64,
    at: Instant,
}

impl Level {
    /// Says whether it has flown over.
    fn add(&mut self, now: Instant, ceiling: &Ceiling) -> bool {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.at = now;
        self.level = (self.level - passed * ceiling.per_second).max(0.0) + 1.0;
        self.level > ceiling.at_once
    }
}

impl Check for RequestRate {
    fn invariant(&self) -> Invariant {
        Invariant::L3
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Booted { host } => {
                self.hosts.insert(*host, Rates::default());
            }
            Happening::Sent { host, is_read } => {
                let rates = self.hosts.entry(*host).or_default();
                if *is_read {
                    if rates.reads.add(at, &READS) {
                        return Err(format!("node-{host} reads more often than the ceiling"));
                    }
                } else {
                    // A write may cause a read beyond the budget.
                    rates.reads.level -= 1.0;
                    if rates.writes.add(at, &WRITES) {
                        return Err(format!("node-{host} writes more often than the ceiling"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
