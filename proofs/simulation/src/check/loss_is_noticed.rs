//! S1, of those who are excused from it, and of those whose place is guarded: they learn that they
//! have lost their place.
//!
//! The belief must end with the first answer of the watch that shows it. It must also end within
//! the first quarter of a minute of quiet, in which every poll is answered.

use std::collections::BTreeSet;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::{Belief, Happening, Who};
use crate::plan::is_own;

/// A poll is held open for 15 s and a sixteenth, and may have to be given up and asked again.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct LossIsNoticed {
    /// Those from whom something was taken away, be it nothing but the session.
    taken: BTreeSet<(usize, String)>,
    /// What hosts have just been shown to be gone of that for which they contend.
    shown: Vec<(usize, String)>,
    quiet_since: Option<Instant>,
}

impl Check for LossIsNoticed {
    fn invariant(&self) -> Invariant {
        Invariant::S1
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
            Happening::Shown { host, gone } => {
                self.shown.extend(gone.iter().map(|it| (*host, it.clone())));
            }
            Happening::Quiet => self.quiet_since = Some(at),
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, at: Instant, held: &[&Belief]) -> Verdict {
        for (host, gone) in self.shown.drain(..) {
            let mut held = held.iter();
            if let Some(belief) = held.find(|it| {
                it.who == Who::Ours(host) && !is_own(it.prefix) && it.sessions.contains(&gone)
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
