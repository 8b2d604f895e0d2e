//! S1, of elections: nobody acquires a key while the lock delay of an invalidated session is on. It is
//! Consul that refuses; whoever is elected during that time was not refused.
//!
//! A session that ends while it has the key is invalidated, whoever ends it: an operator, its TTL, or its
//! owner who could not release the key before. A restored snapshot brings the delays of its time back.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Invariant, Verdict};
use crate::history::{Happening, Subject, Who};

pub(super) struct LockDelayKept {
    bounds: Bounds,
    owners: BTreeMap<String, Who>,
    leaders: BTreeMap<usize, String>,
    delayed_until: BTreeMap<usize, Instant>,
}

impl LockDelayKept {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            owners: BTreeMap::new(),
            leaders: BTreeMap::new(),
            delayed_until: BTreeMap::new(),
        }
    }

    /// Those of strangers have another one.
    fn delay_of(&self, session: &str) -> Duration {
        match self.owners.get(session) {
            Some(Who::Ours(_)) => self.bounds.lock_delay,
            _ => Duration::ZERO,
        }
    }
}

impl Check for LockDelayKept {
    fn invariant(&self) -> Invariant {
        Invariant::S1
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::SessionBegan { session, owner } => {
                self.owners.insert(session.clone(), *owner);
            }
            Happening::SessionEnded { session, .. } => {
                let until = at + self.delay_of(session);
                let led = self.leaders.iter().filter(|(_, it)| *it == session);
                self.delayed_until
                    .extend(led.map(|(prefix, _)| (*prefix, until)));
            }
            Happening::NewEpoch => self.delayed_until.clear(),
            Happening::Changed(change) => {
                let Subject::Key { after, .. } = &change.of else {
                    return Ok(());
                };
                let until = self.delayed_until.get(&change.prefix);
                let is_early = until.is_some_and(|until| at < *until);
                if let (true, false, Some(session)) =
                    (is_early, change.by == Who::Operator, change.added.first())
                {
                    return Err(format!("{session} acquired the key during its lock delay"));
                }
                match after.as_ref().and_then(|key| key.session.clone()) {
                    Some(session) => self.leaders.insert(change.prefix, session),
                    None => self.leaders.remove(&change.prefix),
                };
            }
            _ => {}
        }
        Ok(())
    }
}
