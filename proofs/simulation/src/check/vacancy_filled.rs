//! L1, of elections: in quiet, while somebody campaigns, an available key is acquired within two
//! seconds, plus the time of messages.
//!
//! It is available when it is tied to nobody and no lock delay runs. Then the next attempt comes
//! within a second, on a clock that may run slow. A client whose request failed asks again after
//! half a second. What was lost in the storm is given up after one poll and its timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Belief, Happening, Subject};

/// The longest time for which a key may stay free.
const ACQUIRED_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct VacancyFilled {
    bounds: Bounds,
    quiet_since: Option<Instant>,
    ended: BTreeSet<String>,
    elections: BTreeMap<usize, Election>,
    /// How long the polls of the hosts at each prefix may have no connection.
    unseen: BTreeMap<usize, Duration>,
    counts: Counts,
}

#[derive(Default)]
struct Election {
    is_led: bool,
    /// Since when the key has been available to any client that asks.
    free_since: Instant,
    /// The number of campaigns in this round, and since when there has been one.
    waiting: usize,
    waited_since: Instant,
}

impl VacancyFilled {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            quiet_since: None,
            ended: BTreeSet::new(),
            elections: BTreeMap::new(),
            unseen: BTreeMap::new(),
            counts: Counts::default(),
        }
    }
}

impl Check for VacancyFilled {
    fn invariant(&self) -> Invariant {
        Invariant::L1
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("vacancy is filled", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Booted { prefix, bounds, .. } => {
                let unseen = self.unseen.entry(*prefix).or_default();
                *unseen = (*unseen).max(bounds.unseen);
            }
            Happening::Quiet => self.quiet_since = Some(at),
            Happening::SessionEnded { session, .. } => {
                self.ended.insert(session.clone());
            }
            Happening::Campaigns { prefix } => {
                let election = self.elections.entry(*prefix).or_default();
                if election.waiting == 0 {
                    election.waited_since = at;
                }
                election.waiting += 1;
            }
            Happening::GotIn { prefix, .. } => {
                if let Some(election) = self.elections.get_mut(prefix) {
                    election.waiting = election.waiting.saturating_sub(1);
                }
            }
            Happening::Changed(change) => {
                if let Subject::Key { after, .. } = &change.of {
                    let election = self.elections.entry(change.prefix).or_default();
                    let was_led = election.is_led;
                    election.is_led = after.as_ref().is_some_and(|key| key.session.is_some());
                    if election.is_led && !was_led && election.waiting > 0 {
                        self.counts.came(self.quiet_since.is_some());
                    }
                    election.free_since = election.free_since.max(at);
                    let mut removed = change.removed.iter();
                    if removed.any(|it| self.ended.contains(&it.session)) {
                        election.free_since = at + self.bounds.longest_lock_delay;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, at: Instant, _: &[&Belief]) -> Verdict {
        let Some(quiet_since) = self.quiet_since else {
            return Ok(());
        };
        for (prefix, election) in &self.elections {
            let unseen = self.unseen.get(prefix).copied().unwrap_or_default();
            let within = ACQUIRED_WITHIN + self.bounds.latency * 12 + unseen;
            let in_touch_since = quiet_since + self.bounds.lost_poll;
            let since = election.free_since.max(election.waited_since);
            let is_late = at > since.max(in_touch_since) + within;
            if is_late && election.waiting > 0 && !election.is_led {
                let prefix = crate::plan::Plan::prefix(*prefix);
                return Err(format!("nobody leads {prefix} since {since}, in quiet"));
            }
        }
        Ok(())
    }
}
