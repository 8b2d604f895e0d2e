//! The sessions that have ended by their TTL, and those that still believe.

use std::collections::BTreeMap;
use std::time::Duration;

use judge::{Event, Moment, Place};
use semaphore_core::sans_io::Instant;

use crate::check::Bounds;
use crate::history::{Belief, Ending, Happening, Who};

#[derive(Default)]
pub(super) struct Sessions {
    /// The ended sessions, and when they ended.
    ended: BTreeMap<String, Instant>,
    /// The length of a lease that a former leader may have given. Such a renewal counts if the
    /// present leader knew the session later. The latest moment is the session's end. From then on,
    /// the lock delay guards the place for just as long.
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
            // A restored snapshot brings the session back.
            Happening::SessionBegan { session, .. } => {
                self.ended.remove(session);
            }
            _ => {}
        }
    }

    /// The judge's events at the end of a step, with the beliefs at this moment.
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
