//! Which sessions have ended by their TTL, and who still believes.

use std::collections::BTreeMap;
use std::time::Duration;

use judge::{Event, Moment, Place};
use semaphore_core::sans_io::Instant;

use crate::check::Bounds;
use crate::history::{Belief, Ending, Happening, Who};

#[derive(Default)]
pub(super) struct Sessions {
    /// Those that have ended, and when.
    ended: BTreeMap<String, Instant>,
    /// How long a lease lasts that may come from a leader of yesterday. Its renewal counts if the present leader knew the
    /// session later: at the session's end at the latest, from which on the lock delay keeps the place for as long.
    of_yesterday: Option<Duration>,
}

impl Sessions {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            of_yesterday: bounds.of_yesterday,
            ..Self::default()
        }
    }

    pub(super) fn happen(&mut self, at: Instant, what: &Happening) {
        match what {
            Happening::SessionEnded {
                session,
                by: Ending::Ttl,
            } => {
                self.ended.insert(session.clone(), at);
            }
            // A restored snapshot brings it back.
            Happening::SessionBegan { session, .. } => {
                self.ended.remove(session);
            }
            _ => {}
        }
    }

    /// What is to be told when a step is over and these believe.
    pub(super) fn settle(&self, held: &[&Belief]) -> Vec<Event> {
        if self.ended.is_empty() {
            return Vec::new();
        }
        let ours = held.iter().filter(|it| matches!(it.who, Who::Ours(_)));
        let believed = |belief: &&Belief| {
            let (session, ended) = belief
                .sessions
                .iter()
                .find_map(|it| self.ended.get_key_value(it))?;
            let until = *ended + self.of_yesterday.unwrap_or_default();
            Some(Event::Believed {
                place: Place(belief.prefix),
                until: Moment(until.since_origin()),
                longest: None,
                name: format!("{belief}, whose session {session} has ended by its TTL,"),
            })
        };
        ours.filter_map(believed).collect()
    }
}
