//! Who leads, and which lock delays run.
//!
//! A session that ends while it has the key is invalidated. It does not matter whether an operator,
//! its TTL, or its owner, who could not release the key before, ended it. A restored snapshot
//! brings back the delays of its time.

use std::collections::BTreeMap;
use std::time::Duration;

use judge::{Event, Moment, Place};
use semaphore_core::sans_io::Instant;

use crate::check::Bounds;
use crate::history::{Happening, Subject, Who};

pub(super) struct Delays {
    bounds: Bounds,
    owners: BTreeMap<String, Who>,
    leaders: BTreeMap<usize, String>,
}

impl Delays {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            owners: BTreeMap::new(),
            leaders: BTreeMap::new(),
        }
    }

    /// The judge's events.
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) -> Vec<Event> {
        match what {
            Happening::SessionBegan { session, owner } => {
                self.owners.insert(session.clone(), *owner);
                Vec::new()
            }
            Happening::SessionEnded { session, .. } => {
                let until = Moment((at + self.delay_of(session)).since_origin());
                let led = self.leaders.iter().filter(|(_, it)| *it == session);
                let delayed = |(prefix, session): (&usize, &String)| Event::Delayed {
                    place: Place(*prefix),
                    until,
                    after: session.clone(),
                };
                led.map(delayed).collect()
            }
            Happening::NewEpoch => vec![Event::Undelayed],
            Happening::Changed(change) => {
                let Subject::Key { after, .. } = &change.of else {
                    return Vec::new();
                };
                match after.as_ref().and_then(|key| key.session.clone()) {
                    Some(session) => self.leaders.insert(change.prefix, session),
                    None => self.leaders.remove(&change.prefix),
                };
                let place = Place(change.prefix);
                let by_itself = change.added.first().filter(|_| change.by != Who::Operator);
                let acquired = by_itself.cloned();
                let acquired = acquired.map(|name| Event::Acquired { place, name });
                acquired.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The lock delay of a session. Strangers have another one.
    fn delay_of(&self, session: &str) -> Duration {
        match self.owners.get(session) {
            Some(Who::Ours(_)) => self.bounds.lock_delay,
            _ => Duration::ZERO,
        }
    }
}
