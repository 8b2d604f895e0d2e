//! Notices are true: each grant and each loss, with its reason, is reported, and no end of
//! something that is still held.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::sans_io::Instant;
use semaphore_core::{FencingToken, Lost};

use super::{Check, Counts, Invariant, Verdict};
use crate::history::{Belief, BeliefNo, Happening, Noticed, Who};

/// A process's name for a hold: the host, the prefix, and the fencing token.
type Name = (usize, usize, FencingToken);

#[derive(Default)]
pub(super) struct NoticesAreTrue {
    /// The hosts that have observers.
    observed: BTreeSet<usize>,
    /// The last notice about each hold.
    told: BTreeMap<Name, Noticed>,
    beliefs: BTreeMap<BeliefNo, Name>,
    counts: Counts,
}

impl NoticesAreTrue {
    fn name(&self, belief: &Belief) -> Option<Name> {
        let name = self.beliefs.get(&belief.no).copied();
        name.filter(|(host, ..)| self.observed.contains(host))
    }
}

impl Check for NoticesAreTrue {
    fn invariant(&self) -> Invariant {
        Invariant::Soundness
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("notices are true", self.counts)
    }

    fn happen(&mut self, _at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Booted { host, .. } => self.told.retain(|(of, ..), _| of != host),
            Happening::Noticed {
                host,
                prefix,
                token,
                what,
            } => {
                self.observed.insert(*host);
                self.counts.came(true);
                let name = (*host, *prefix, *token);
                let before = self.told.insert(name, what.clone());
                let is_end = *what != Noticed::Granted;
                if is_end && before != Some(Noticed::Granted) {
                    return Err(format!("{what:?} is told of a hold that is {before:?}"));
                }
            }
            Happening::Granted { belief, token } => {
                if let Who::Ours(host) = belief.who {
                    let name = (host, belief.prefix, *token);
                    self.beliefs.insert(belief.no, name);
                    if self.observed.contains(&host) && !self.told.contains_key(&name) {
                        return Err(format!("nobody was told of the grant of {belief}"));
                    }
                }
            }
            Happening::Lost { belief, reason } => {
                let told = self.name(belief).and_then(|name| self.told.get(&name));
                // A leader that steps down when asked gives its term back.
                let truth = match reason {
                    Lost::SteppedDown => Noticed::Released,
                    _ => Noticed::lost(reason),
                };
                if let Some(told) = told
                    && *told != truth
                {
                    return Err(format!(
                        "{belief} is lost ({reason}), and {told:?} was told"
                    ));
                }
            }
            Happening::Released { belief } => {
                self.beliefs.remove(belief);
            }
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, _at: Instant, held: &[&Belief]) -> Verdict {
        for belief in held {
            let told = self.name(belief).and_then(|name| self.told.get(&name));
            if let Some(told) = told.filter(|told| **told != Noticed::Granted) {
                return Err(format!("{belief} is believed, and {told:?} was told"));
            }
        }
        Ok(())
    }
}
