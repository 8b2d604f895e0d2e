//! By what each loss is justified.
//!
//! By the end of the session, by whoever took the holder or its contender key away or the permission to see them, or, where
//! the lease ran out, by trouble for so long that no renewal could have been answered. A leader loses its term, too, when the
//! indexes by which it knows it are counted anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use judge::{Event, Lease, Place};
use semaphore_core::Lost;
use semaphore_core::sans_io::Instant;

use crate::check::Bounds;
use crate::history::{Belief, BeliefNo, Happening, Who};

/// What a renewal may take besides its travel and the wait before it.
const SLACK: Duration = Duration::from_millis(500);

pub(super) struct Losses {
    bounds: Bounds,
    gone: BTreeSet<String>,
    blinded: BTreeSet<Who>,
    trouble: BTreeMap<Option<usize>, Instant>,
    /// Those who hold, and those of them who did when indexes were counted anew: it is by indexes that a
    /// leader knows its term.
    holding: BTreeSet<BeliefNo>,
    renumbered: BTreeSet<BeliefNo>,
    /// Who was admitted last, and who was so before indexes were counted anew: they may learn of it late.
    admitted: BTreeSet<String>,
    admitted_before: BTreeSet<String>,
}

impl Losses {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            gone: BTreeSet::new(),
            blinded: BTreeSet::new(),
            trouble: BTreeMap::new(),
            holding: BTreeSet::new(),
            renumbered: BTreeSet::new(),
            admitted: BTreeSet::new(),
            admitted_before: BTreeSet::new(),
        }
    }

    /// What is to be told of this.
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) -> Option<Event> {
        match what {
            Happening::Trouble { host, until } => {
                let known = self.trouble.entry(*host).or_default();
                *known = (*known).max(*until);
            }
            Happening::Blinded { host } => {
                self.blinded.insert(Who::Ours(*host));
            }
            Happening::SessionEnded { session, .. } | Happening::Taken { session, .. } => {
                self.gone.insert(session.clone());
            }
            Happening::Changed(change) => {
                let removed = change.removed.iter();
                self.gone.extend(removed.map(|it| it.session.clone()));
                for session in &change.added {
                    self.admitted_before.remove(session);
                    self.admitted.insert(session.clone());
                }
            }
            Happening::Granted { belief, .. } => {
                self.holding.insert(belief.no);
                let mut sessions = belief.sessions.iter();
                if sessions.any(|it| self.admitted_before.contains(it)) {
                    self.renumbered.insert(belief.no);
                }
            }
            Happening::Released { belief } => {
                self.holding.remove(belief);
            }
            Happening::NewEpoch => {
                self.renumbered.clone_from(&self.holding);
                self.admitted_before.clone_from(&self.admitted);
            }
            Happening::Lost { belief, reason } => return Some(self.lost(at, belief, reason)),
            _ => {}
        }
        None
    }

    fn lost(&self, at: Instant, belief: &Belief, reason: &Lost) -> Event {
        let (was_taken, lease) = match (reason, belief.who) {
            // What was taken away besides does not keep a lease from being renewed.
            (Lost::LeaseExpired { .. }, Who::Ours(host)) => (false, self.lease(at, host)),
            _ => (self.was_taken(belief, reason), Lease::Lasts),
        };
        Event::Lost {
            place: Place(belief.prefix),
            was_taken,
            lease,
            name: format!("{belief} ({reason})"),
        }
    }

    fn lease(&self, at: Instant, host: usize) -> Lease {
        let felt = |whose| self.trouble.get(&whose).copied().unwrap_or_default();
        let calm_since = felt(None).max(felt(Some(host)));
        // The host's clock may run slow.
        let needed = (self.bounds.retry_cap + self.bounds.latency * 2).mul_f64(1.1) + SLACK;
        Lease::Over {
            in_reach: at.saturating_since(calm_since),
            needed,
        }
    }

    fn was_taken(&self, belief: &Belief, reason: &Lost) -> bool {
        let is_by_index = matches!(
            reason,
            Lost::KeyDeleted { .. } | Lost::KeyOverwritten { .. } | Lost::KeyReleased { .. }
        );
        (is_by_index && self.renumbered.contains(&belief.no))
            || self.blinded.contains(&belief.who)
            || belief.sessions.iter().any(|it| self.gone.contains(it))
    }
}
