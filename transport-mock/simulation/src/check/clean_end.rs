//! L2: nothing of ours outlives us.
//!
//! Whoever destroys their session is out of the record by then, and no write of theirs that is still
//! under way can bring them back. After all have left there is no session, contender key or holder.
//! Where an operator has had a hand in it, the end is all that counts.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::{Ending, Happening, Who};

#[derive(Default)]
pub(super) struct CleanEnd {
    /// Those whose session was destroyed by the host that had made it.
    left: BTreeSet<String>,
    holders: BTreeMap<usize, BTreeSet<String>>,
    taken: BTreeSet<String>,
    /// Whether indexes went backwards, or somebody could not see the record.
    is_excused: bool,
}

impl Check for CleanEnd {
    fn invariant(&self) -> Invariant {
        Invariant::L2
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Left { what } => return Err(format!("{what} is left")),
            Happening::NewEpoch | Happening::Blinded { .. } => self.is_excused = true,
            Happening::Taken { session } => {
                self.taken.insert(session.clone());
            }
            Happening::SessionEnded {
                session,
                by: Ending::Destroyed(by @ Who::Ours(_)),
            } => {
                self.left.insert(session.clone());
                let is_holder = self.holders.values().any(|it| it.contains(session));
                if is_holder && !self.taken.contains(session) && !self.is_excused {
                    return Err(format!("{by} leaves, and {session} stays in the record"));
                }
            }
            Happening::RecordChanged {
                prefix,
                by: by @ Who::Ours(_),
                after,
                added,
                ..
            } => {
                self.note_holders(*prefix, after);
                let late = added.iter().find(|it| self.left.contains(*it));
                if let Some(session) = late.filter(|_| !self.is_excused) {
                    return Err(format!("{by} has left, and {session} gets into the record"));
                }
            }
            Happening::RecordChanged { prefix, after, .. } => self.note_holders(*prefix, after),
            _ => {}
        }
        Ok(())
    }
}

impl CleanEnd {
    fn note_holders(&mut self, prefix: usize, after: &crate::history::Found) {
        let holders = match after {
            Some(Ok(record)) => record.holders().map(str::to_owned).collect(),
            _ => BTreeSet::new(),
        };
        self.holders.insert(prefix, holders);
    }
}
