//! L3: a participant's requests stay below the ceilings of PROMISES in every window of time, however
//! short.
//!
//! Reads: 100 a second in the long run (on a clock that may run fast), 60 at once, and as many
//! again as its writes. Writes: 50 a second in the long run and 150 at once. For each slot beyond
//! ten, four more reads and writes a second, and 15 at once: one user may want them all, and each
//! has its session and key, which come, are renewed and go. Every failed attempt is followed by a
//! growing wait, and what users and losses cause comes in bursts.
//!
//! An election has less to do. A candidate polls ten times a second in the long run and 20 times at
//! once. It reads once more for an answer that leaves something open. A follower beside it adds ten
//! a second and ten at once. Each session attempts to acquire the key twice a second in the long
//! run, once more for each acquisition by others, and again after failures and for other values. A
//! session that is kept for the next term begins again with each term, and tries once for each
//! campaign.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Asked, Change, Happening, Subject, leader};
use crate::plan::FASTEST_CLOCK;

const READS: Ceiling = Ceiling {
    per_second: 100.0 * FASTEST_CLOCK,
    at_once: 60.0,
};
const WRITES: Ceiling = Ceiling {
    per_second: 50.0,
    at_once: 150.0,
};

/// A candidate and two followers.
const ELECTION_READS: Ceiling = Ceiling {
    per_second: 120.0 * FASTEST_CLOCK,
    at_once: 80.0,
};
const ATTEMPTS: Ceiling = Ceiling {
    per_second: 2.0 * FASTEST_CLOCK,
    at_once: 12.0,
};

/// The slots that these allow for, and what each other one adds.
const FEW_SLOTS: u32 = 10;
const OF_SLOT: Ceiling = Ceiling {
    per_second: 4.0,
    at_once: 15.0,
};

pub(super) struct RequestRate {
    reads: Ceiling,
    writes: Ceiling,
    /// The rates of each host at each prefix.
    hosts: BTreeMap<(usize, usize), Rates>,
    counts: Counts,
}

#[derive(Default)]
struct Rates {
    is_election: bool,
    reads: Level,
    writes: Level,
    /// The attempts of each session.
    attempts: BTreeMap<String, Level>,
}

struct Ceiling {
    per_second: f64,
    at_once: f64,
}

/// A bucket. Each request fills it by one, and time empties it. It overflows if any window of time
/// has more requests than the ceiling allows.
#[derive(Default)]
struct Level {
    level: f64,
    at: Instant,
}

impl Level {
    /// Returns whether it has overflowed.
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

    fn counts(&self) -> (&'static str, Counts) {
        ("request rate", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Booted {
                host,
                place,
                prefix,
                ..
            } => {
                let rates = Rates {
                    is_election: place.is_election(),
                    ..Rates::default()
                };
                self.hosts.insert((*host, *prefix), rates);
            }
            Happening::Sent { host, prefix, what } => {
                self.counts.came(true);
                let rates = self.hosts.entry((*host, *prefix)).or_default();
                return rates
                    .add(at, what, &self.reads, &self.writes)
                    .map_err(|how| format!("node-{host} {how} more often than the ceiling"));
            }
            // Each campaign tries once, however soon its user comes back.
            Happening::Waits { host, prefix, .. } => {
                let rates = self.hosts.entry((*host, *prefix)).or_default();
                for level in rates.attempts.values_mut() {
                    level.level = (level.level - 1.0).max(0.0);
                }
            }
            Happening::Changed(change) => self.allow_for(change),
            _ => {}
        }
        Ok(())
    }
}

impl RequestRate {
    pub(super) fn new(bounds: Bounds) -> Self {
        let others = f64::from(bounds.limit.saturating_sub(FEW_SLOTS));
        let with_others = |of: &Ceiling| Ceiling {
            per_second: of.per_second + others * OF_SLOT.per_second,
            at_once: of.at_once + others * OF_SLOT.at_once,
        };
        Self {
            reads: with_others(&READS),
            writes: with_others(&WRITES),
            hosts: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// If another client acquires or deletes an election's key, that explains a refusal. So the
    /// waiting candidates may try again at once.
    fn allow_for(&mut self, change: &Change) {
        let Subject::Key { before, after } = &change.of else {
            return;
        };
        let [former, now] = [before, after].map(|key| leader(key.as_ref()));
        let is_acquired = now.is_some() && former != now;
        if !is_acquired && after.is_some() {
            return;
        }
        let hosts = self.hosts.iter_mut();
        for (_, rates) in hosts.filter(|((_, prefix), _)| *prefix == change.prefix) {
            for (session, level) in &mut rates.attempts {
                level.level = if Some(session) == now.as_ref() {
                    // A term begins, in which values may follow, as in earlier terms.
                    level.level.min(1.0)
                } else {
                    (level.level - 1.0).max(0.0)
                };
            }
        }
    }
}

impl Rates {
    /// Returns what there was too much of.
    fn add(
        &mut self,
        at: Instant,
        what: &Asked,
        reads: &Ceiling,
        writes: &Ceiling,
    ) -> Result<(), &'static str> {
        if *what == Asked::Read {
            let ceiling = if self.is_election {
                &ELECTION_READS
            } else {
                reads
            };
            return not_over(self.reads.add(at, ceiling), "reads");
        }
        // A write may cause a read beyond the budget.
        self.reads.level -= 1.0;
        if let (true, Asked::Attempt(session)) = (self.is_election, what) {
            let attempts = self.attempts.entry(session.clone()).or_default();
            not_over(attempts.add(at, &ATTEMPTS), "tries to acquire the key")?;
        }
        not_over(self.writes.add(at, writes), "writes")
    }
}

fn not_over(is_over: bool, what: &'static str) -> Result<(), &'static str> {
    if is_over { Err(what) } else { Ok(()) }
}
