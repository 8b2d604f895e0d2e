//! S4, of elections: only the session that a key is tied to changes its value, through `acquire`
//! and `release`, and we change nothing that belongs to something else. A release leaves the
//! present value, or an earlier value of its leader: a change that it does not know of may be under
//! way.
//!
//! The guide's requests can't name the state that they were made from. A request that was sent
//! before its host could know may overwrite what somebody stored meanwhile. If a leader was told
//! that the key shows its value, it has been written.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::sans_io::Instant;

use super::{Check, Counts, Invariant, Verdict};
use crate::history::{BeliefNo, Change, Happening, KeyState, Subject, Who};

#[derive(Default)]
pub(super) struct KeyThroughAcquire {
    owners: BTreeMap<String, Who>,
    /// The prefixes with foreign data, and since when.
    garbled: BTreeMap<usize, Instant>,
    /// What each host has learned of each prefix: when, and how old the state is that it relies on.
    informed: BTreeMap<(usize, usize), (Instant, Instant)>,
    /// The sessions that wrote each value.
    written: BTreeSet<(String, Vec<u8>)>,
    leaders: BTreeMap<BeliefNo, String>,
    counts: Counts,
}

impl KeyThroughAcquire {
    fn note(&mut self, at: Instant, change: &Change, after: Option<&KeyState>) {
        if after.is_some_and(|key| !key.is_elections()) {
            self.garbled.entry(change.prefix).or_insert(at);
        } else {
            self.garbled.remove(&change.prefix);
        }
        if let Some((session, key)) = after.and_then(|key| Some((key.session.clone()?, key))) {
            self.written.insert((session, key.value.clone()));
        }
    }

    fn judge(
        &self,
        change: &Change,
        before: Option<&KeyState>,
        after: Option<&KeyState>,
    ) -> Verdict {
        let by = change.by;
        let is_own = |key: &KeyState| {
            let owner = key.session.as_ref().and_then(|it| self.owners.get(it));
            owner == Some(&by)
        };
        let Some(after) = after else {
            return Err(format!("{by} deleted the key"));
        };
        if !change.is_bound {
            return Err(format!(
                "{by} wrote the key, and neither acquired nor released it"
            ));
        }
        let is_anothers = before.is_some_and(|key| key.session.is_some() && !is_own(key));
        if is_anothers {
            return Err(format!("{by} changed the key of somebody else"));
        }
        let says = |key: &KeyState| (key.value.clone(), key.flags);
        let is_same = before.map(says) == Some(says(after));
        let is_released = after.session.is_none();
        let was_own = before
            .and_then(|key| key.session.clone())
            .is_some_and(|session| self.written.contains(&(session, after.value.clone())));
        if is_released && !is_same && !was_own && !self.is_excused(change) {
            return Err(format!("{by} released the key and changed what it says"));
        }
        if before.is_some_and(|key| !key.is_elections()) && !is_same && !self.is_excused(change) {
            return Err(format!("{by} wrote over something that is no election's"));
        }
        if after.session.is_some() && !after.is_elections() {
            return Err(format!("{by} acquired the key, and it is no election's"));
        }
        Ok(())
    }

    /// Whether the writer's host could not know what it would overwrite.
    fn is_excused(&self, change: &Change) -> bool {
        let (Who::Ours(host), Some(sent_at)) = (change.by, change.sent_at) else {
            return false;
        };
        let Some(garbled) = self.garbled.get(&change.prefix) else {
            return false;
        };
        let known = self.informed.get(&(host, change.prefix));
        known.is_none_or(|(at, of)| sent_at <= *at || of <= garbled)
    }
}

impl Check for KeyThroughAcquire {
    fn invariant(&self) -> Invariant {
        Invariant::S4
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("key through acquire", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::SessionBegan { session, owner } => {
                self.owners.insert(session.clone(), *owner);
            }
            Happening::Informed { host, prefix, of } if !self.garbled.is_empty() => {
                self.informed.insert((*host, *prefix), (at, *of));
            }
            Happening::Granted { belief, .. } => {
                if let Some(session) = belief.sessions.first() {
                    self.leaders.insert(belief.no, session.clone());
                }
            }
            Happening::ValueSet { belief, value } => {
                let session = self.leaders.get(belief).cloned().unwrap_or_default();
                if !self
                    .written
                    .contains(&(session, value.clone().into_bytes()))
                {
                    return Err(format!("the key has never shown {value:?}, as was told"));
                }
            }
            Happening::Changed(change) => {
                let Subject::Key { before, after } = &change.of else {
                    return Ok(());
                };
                let verdict = match change.by {
                    Who::Ours(_) => {
                        self.counts.came(!self.is_excused(change));
                        self.judge(change, before.as_ref(), after.as_ref())
                    }
                    _ => Ok(()),
                };
                self.note(at, change, after.as_ref());
                return verdict;
            }
            _ => {}
        }
        Ok(())
    }
}
