//! S1 for two kinds of beliefs that don't count: those that are excused, and those whose place is
//! guarded. Their holders must learn that they have lost their place.
//!
//! The belief must end with the first answer of the watch that shows it. It must also end within
//! the first quarter of a minute of quiet, in which every poll is answered.

use std::collections::BTreeSet;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Check, Counts, Invariant, Verdict};
use crate::history::{Belief, Happening, Who};

/// A poll is held open for 15 s and a sixteenth. It may have to be given up and repeated.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct LossIsNoticed {
    /// The holds that something was taken from, even if it was only the session.
    taken: BTreeSet<(usize, String)>,
    /// The host's losses that the last answer about a prefix has shown.
    shown: Vec<(usize, usize, String)>,
    quiet_since: Option<Instant>,
    counts: Counts,
}

impl Check for LossIsNoticed {
    fn invariant(&self) -> Invariant {
        Invariant::S1
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("loss is noticed", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Taken {
                session, prefix, ..
            } => {
                self.taken.insert((*prefix, session.clone()));
            }
            Happening::Restored { session, prefix } => {
                self.taken.remove(&(*prefix, session.clone()));
            }
            Happening::Shown { host, prefix, gone } => {
                let gone = gone.iter().map(|it| (*host, *prefix, it.clone()));
                self.shown.extend(gone);
            }
            Happening::Quiet => self.quiet_since = Some(at),
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, at: Instant, held: &[&Belief]) -> Verdict {
        for (host, prefix, gone) in self.shown.drain(..) {
            self.counts.came(true);
            let mut held = held.iter();
            if let Some(belief) = held.find(|it| {
                it.who == Who::Ours(host) && it.prefix == prefix && it.sessions.contains(&gone)
            }) {
                return Err(format!(
                    "{belief} goes on after an answer of the watch that shows it gone"
                ));
            }
        }
        let must_be_noticed = self
            .quiet_since
            .is_some_and(|since| at > since + NOTICED_WITHIN);
        if !must_be_noticed || self.taken.is_empty() {
            return Ok(());
        }
        let is_taken = |it: &&&Belief| it.is_among(&self.taken);
        let mut ours = held.iter().filter(|it| matches!(it.who, Who::Ours(_)));
        match ours.find(is_taken) {
            Some(belief) => Err(format!("{belief} goes on, and was taken away long ago")),
            None => Ok(()),
        }
    }
}
