//! The users that wait at each prefix.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Instant;

use crate::history::{Happening, Who};

#[derive(Default)]
pub(super) struct Callers {
    /// By prefix and host.
    places: BTreeMap<(usize, usize), Waiting>,
}

/// Those of one host at one prefix.
#[derive(Default)]
pub(super) struct Waiting {
    /// For how many slots each of them waits.
    permits: Vec<u32>,
    /// When the first of them came, or one of them last left.
    pub(super) since: Instant,
}

impl Waiting {
    pub(super) fn is_nobody(&self) -> bool {
        self.permits.is_empty()
    }

    /// Whether one of them waits for several slots.
    pub(super) fn is_wide(&self) -> bool {
        self.permits.iter().any(|permits| *permits > 1)
    }
}

impl Callers {
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) {
        match what {
            Happening::Waits {
                host,
                prefix,
                permits,
            } => {
                let waiting = self.places.entry((*prefix, *host)).or_default();
                if waiting.is_nobody() {
                    waiting.since = at;
                }
                waiting.permits.push(*permits);
            }
            Happening::GaveUp {
                host,
                prefix,
                permits,
            } => self.left(at, (*prefix, *host), *permits),
            Happening::Granted { belief, .. } => {
                if let Who::Ours(host) = belief.who {
                    self.left(at, (belief.prefix, host), belief.permits);
                }
            }
            Happening::Stopped { host } => self.places.retain(|(_, of), _| of != host),
            _ => {}
        }
    }

    fn left(&mut self, at: Instant, place: (usize, usize), permits: u32) {
        let Some(waiting) = self.places.get_mut(&place) else {
            return;
        };
        if let Some(one) = waiting.permits.iter().position(|it| *it == permits) {
            waiting.permits.swap_remove(one);
            waiting.since = at;
        }
    }

    /// Those of this host at this prefix, if any wait.
    pub(super) fn of(&self, prefix: usize, host: usize) -> Option<&Waiting> {
        let waiting = self.places.get(&(prefix, host));
        waiting.filter(|it| !it.is_nobody())
    }

    /// The hosts with users that wait at this prefix.
    pub(super) fn at(&self, prefix: usize) -> impl Iterator<Item = (usize, &Waiting)> {
        let places = self.places.range((prefix, 0)..=(prefix, usize::MAX));
        let waiting = places.filter(|(_, it)| !it.is_nobody());
        waiting.map(|((_, host), it)| (*host, it))
    }
}
