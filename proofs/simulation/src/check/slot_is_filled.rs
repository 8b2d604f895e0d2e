//! L1 of semaphores: while a slot is free and live contenders wait, one of them is admitted in
//! bounded time. It is judged in the storm, too: while no host that contends is kept from Consul.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::callers::Callers;
use super::vigour::Vigour;
use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Belief, Happening, Subject, Who};

/// How long a slot may stay free: the patience with who does not use it, and the pauses and polls of
/// who waits, on a clock that may run slow.
const FILLED_WITHIN: Duration = Duration::from_secs(6);

pub(super) struct SlotIsFilled {
    bounds: Bounds,
    vigour: Vigour,
    callers: Callers,
    prefixes: BTreeMap<usize, Prefix>,
    /// The hosts at which somebody has waited for several slots, and at which prefix. Their keys may not
    /// have gone yet when the host stops.
    wide: BTreeSet<(usize, usize)>,
    /// The prefixes at which somebody ever did. A snapshot may revive their keys.
    ever_wide: BTreeSet<usize>,
    /// Whose each session is that lives.
    sessions: BTreeMap<String, Who>,
    /// The sessions whose keys may still stand for several slots though nobody waits with them, and at
    /// which prefixes: their host has stopped, or a snapshot has revived them.
    left: BTreeMap<String, BTreeSet<usize>>,
    /// How much longer it may take on each host.
    held_up: BTreeMap<usize, Duration>,
    counts: Counts,
}

#[derive(Default)]
struct Prefix {
    /// How many slots are free, and since when at least one is.
    free: usize,
    free_since: Instant,
    /// Since when none is kept any more for who waits for several.
    kept_until: Instant,
}

impl SlotIsFilled {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            vigour: Vigour::default(),
            callers: Callers::default(),
            prefixes: BTreeMap::new(),
            wide: BTreeSet::new(),
            ever_wide: BTreeSet::new(),
            sessions: BTreeMap::new(),
            left: BTreeMap::new(),
            held_up: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// The prefixes at which free slots may be kept for who waits for several.
    fn kept(&self) -> BTreeSet<usize> {
        let numbers = self.prefixes.keys();
        numbers
            .filter(|number| {
                self.callers.at(**number).any(|(_, it)| it.is_wide()) || self.is_left_at(**number)
            })
            .copied()
            .collect()
    }

    fn is_left_at(&self, number: usize) -> bool {
        self.left.values().any(|at| at.contains(&number))
    }

    /// What happens to sessions with which somebody has waited for several slots, and to their keys.
    fn mind_the_wide(&mut self, what: &Happening) {
        match what {
            Happening::Waits {
                host,
                prefix,
                permits: 2..,
            } => {
                self.wide.insert((*host, *prefix));
                self.ever_wide.insert(*prefix);
            }
            Happening::SessionBegan { session, owner } => {
                self.sessions.insert(session.clone(), *owner);
            }
            Happening::SessionEnded { session, .. } => {
                self.sessions.remove(session);
                self.left.remove(session);
            }
            Happening::Revived { session } if !self.ever_wide.is_empty() => {
                self.left.insert(session.clone(), self.ever_wide.clone());
            }
            Happening::Stopped { host } => {
                let wide = self.wide.extract_if(.., |(of, _)| of == host);
                let prefixes: BTreeSet<usize> = wide.map(|(_, prefix)| prefix).collect();
                if prefixes.is_empty() {
                    return;
                }
                for (session, owner) in &self.sessions {
                    if *owner == Who::Ours(*host) {
                        let at = self.left.entry(session.clone()).or_default();
                        at.extend(&prefixes);
                    }
                }
            }
            _ => {}
        }
    }

    /// Until when a slot of this prefix must be filled. `None` if nobody must fill it.
    fn due(&self, number: usize, prefix: &Prefix) -> Option<Instant> {
        if prefix.free == 0 || self.is_left_at(number) {
            return None;
        }
        let mut since: Option<Instant> = None;
        for (host, waiting) in self.callers.at(number) {
            // Free slots may be kept for who waits for several.
            if waiting.is_wide() {
                return None;
            }
            let held_up = self.held_up.get(&host).copied().unwrap_or_default();
            let able = waiting.since.max(self.vigour.since(host, number)?) + held_up;
            since = Some(since.map_or(able, |since| since.max(able)));
        }
        let free_since = prefix.free_since.max(prefix.kept_until);
        // Who may replace the limit waits until the dead are removed.
        let replaces = if self.bounds.changes_limits {
            self.bounds.longest_session + self.bounds.longest_lock_delay
        } else {
            Duration::ZERO
        };
        let within = FILLED_WITHIN + replaces + self.bounds.latency * 30 + self.bounds.lost_poll;
        Some(since?.max(free_since) + within)
    }
}

impl Check for SlotIsFilled {
    fn invariant(&self) -> Invariant {
        Invariant::L1
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("slot is filled", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        self.vigour.happen(at, what);
        let before = self.kept();
        self.callers.happen(at, what);
        self.mind_the_wide(what);
        let after = self.kept();
        // Others may have them from now on.
        for number in before.difference(&after) {
            let prefix = self.prefixes.entry(*number).or_default();
            prefix.kept_until = prefix.kept_until.max(at);
        }
        match what {
            Happening::Booted { host, bounds, .. } => {
                self.held_up.insert(*host, bounds.held_up + bounds.unseen);
            }
            Happening::Changed(change) => {
                let Subject::Record { after, .. } = &change.of else {
                    return Ok(());
                };
                let free = match after {
                    Some(Ok(record)) => {
                        (record.limit() as usize).saturating_sub(record.holders().len())
                    }
                    Some(Err(_)) => 0,
                    None => self.bounds.limit as usize,
                };
                let is_waited_for = self.callers.at(change.prefix).next().is_some();
                let prefix = self.prefixes.entry(change.prefix).or_default();
                if !change.added.is_empty() && is_waited_for {
                    self.counts.came(matches!(change.by, Who::Ours(_)));
                }
                if prefix.free == 0 || !change.added.is_empty() {
                    prefix.free_since = at;
                }
                prefix.free = free;
            }
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, at: Instant, _: &[&Belief]) -> Verdict {
        for (number, prefix) in &self.prefixes {
            if self.due(*number, prefix).is_some_and(|due| at > due) {
                return Err(format!(
                    "a slot of {} stays free since {}, and somebody waits",
                    crate::plan::Plan::prefix(*number),
                    prefix.free_since
                ));
            }
        }
        Ok(())
    }
}
