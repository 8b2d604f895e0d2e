//! L4: a transient failure costs nobody their slot.
//!
//! A loss is justified when the session has ended, when somebody took the holder or its contender
//! key away or the permission to see them, or when the lease ran out while nothing worked for so long that no renewal could have
//! been answered. A leader loses its term, too, when the indexes by which it knows it are counted anew. An
//! acquisition fails only where something permanent stands in its way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::{Instant, Lost};

use super::{Bounds, Check, Invariant, Verdict};
use crate::history::{Belief, BeliefNo, Happening, Who};

/// What a renewal may take besides its travel and the wait before it.
const SLACK: Duration = Duration::from_millis(500);

pub(super) struct JustifiedLoss {
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

impl JustifiedLoss {
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

    fn judge(&self, at: Instant, belief: &Belief, reason: &Lost) -> Verdict {
        match reason {
            Lost::LeaseExpired { .. } => {
                let Who::Ours(host) = belief.who else {
                    return Ok(());
                };
                let felt = |whose| self.trouble.get(&whose).copied().unwrap_or_default();
                let calm_since = felt(None).max(felt(Some(host)));
                // The host's clock may run slow.
                let needed = (self.bounds.retry_cap + self.bounds.latency * 2).mul_f64(1.1) + SLACK;
                if at > calm_since + needed {
                    return Err(format!(
                        "{belief} is lost, its lease ran out, and since {calm_since} nothing kept a renewal from being answered"
                    ));
                }
                Ok(())
            }
            Lost::KeyDeleted { .. } | Lost::KeyOverwritten { .. } | Lost::KeyReleased { .. }
                if self.renumbered.contains(&belief.no) =>
            {
                Ok(())
            }
            _ if self.blinded.contains(&belief.who) => Ok(()),
            _ if belief.sessions.iter().any(|it| self.gone.contains(it)) => Ok(()),
            _ => Err(format!(
                "{belief} is lost ({reason}), and nobody took it away"
            )),
        }
    }
}

impl Check for JustifiedLoss {
    fn invariant(&self) -> Invariant {
        Invariant::L4
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
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
            Happening::Lost { belief, reason } => return self.judge(at, belief, reason),
            Happening::Failed { host, error } if !self.bounds.expects_refusals => {
                return Err(format!("what node-{host} asked for failed: {error}"));
            }
            _ => {}
        }
        Ok(())
    }
}
