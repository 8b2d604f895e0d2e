//! Which sessions have ended by their TTL, and who goes on believing.

use std::collections::BTreeMap;

use judge::{Event, Moment, Place};
use semaphore_core::sans_io::Instant;

use crate::history::{Belief, Ending, Happening, Who};

/// Those that have ended, and when.
#[derive(Default)]
pub(super) struct Sessions(BTreeMap<String, Instant>);

impl Sessions {
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) {
        match what {
            Happening::SessionEnded {
                session,
                by: Ending::Ttl,
            } => {
                self.0.insert(session.clone(), at);
            }
            // A restored snapshot brings it back.
            Happening::SessionBegan { session, .. } => {
                self.0.remove(session);
            }
            _ => {}
        }
    }

    /// What is to be told when a step is over and these believe.
    pub(super) fn settle(&self, held: &[&Belief]) -> Vec<Event> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let ours = held.iter().filter(|it| matches!(it.who, Who::Ours(_)));
        let believed = |belief: &&Belief| {
            let (session, ended) = belief
                .sessions
                .iter()
                .find_map(|it| self.0.get_key_value(it))?;
            Some(Event::Believed {
                place: Place(belief.prefix),
                until: Moment(ended.since_origin()),
                longest: None,
                name: format!("{belief}, whose session {session} has ended by its TTL,"),
            })
        };
        ours.filter_map(believed).collect()
    }
}
