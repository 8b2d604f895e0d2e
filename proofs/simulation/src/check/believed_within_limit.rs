//! S1: never more than the limit believe that they hold. The limit of an election is one.
//!
//! Whose session has ended, with its node or by an operator's hand, and who does not know yet, goes on
//! believing, and counts: its lock delay keeps others away for so long. A stranger does not wait for it, and a
//! lock delay that was chosen too short does not last: then two can overlap.
//!
//! What an operator takes away otherwise can overlap until its holder learns of it: from that deed on it does
//! not count. Of all this the first answer of the watch that shows it must end the belief, and so must the
//! first quarter of a minute of quiet, in which every poll is answered. A limit that is set below
//! what is held binds those who come later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Invariant, Verdict};
use crate::history::{Belief, Change, Happening, Subject, Who};

/// A poll is held open for 15 s and a sixteenth, and may have to be given up and asked again.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct BelievedWithinLimit {
    bounds: Bounds,
    limits: BTreeMap<usize, Limit>,
    /// Those who may overlap with others.
    taken: BTreeSet<String>,
    /// Those whose session has ended, and whose place is kept for them.
    guarded: BTreeSet<String>,
    /// What hosts have just been shown to be gone.
    shown: Vec<(usize, String)>,
    quiet_since: Option<Instant>,
}

struct Limit {
    limit: u32,
    /// More may hold after the limit was lowered, until they have left.
    allowed: u32,
}

impl BelievedWithinLimit {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limits: BTreeMap::new(),
            taken: BTreeSet::new(),
            guarded: BTreeSet::new(),
            shown: Vec::new(),
            quiet_since: None,
        }
    }

    fn note_limit(&mut self, change: &Change) {
        let record = match &change.of {
            Subject::Record { after, .. } => after,
            Subject::Key { .. } => {
                let (limit, allowed) = (1, 0);
                self.limits.insert(change.prefix, Limit { limit, allowed });
                return;
            }
        };
        let Some(Ok(record)) = record else {
            return;
        };
        let holders = u32::try_from(record.holders().len()).unwrap_or(u32::MAX);
        let first = Limit {
            limit: record.limit(),
            allowed: 0,
        };
        let known = self.limits.entry(change.prefix).or_insert(first);
        known.limit = record.limit();
        known.allowed = match change.by {
            Who::Operator => holders,
            _ => known.allowed.min(holders),
        };
    }

    /// Strangers prune at once.
    fn note_pruned(&mut self, change: &Change) {
        let is_record = matches!(change.of, Subject::Record { .. });
        if let (Who::Stranger(_), true) = (change.by, is_record) {
            let pruned = change.removed.iter().map(|it| &it.session);
            let guarded = pruned.filter(|it| self.guarded.contains(*it));
            self.taken.extend(guarded.cloned());
        }
    }

    fn allowed(&self, prefix: usize) -> u32 {
        let limit = self.limits.get(&prefix);
        limit.map_or(self.bounds.limit, |it| it.limit.max(it.allowed))
    }

    fn is_taken(&self, belief: &Belief) -> bool {
        belief.sessions.iter().any(|it| self.taken.contains(it))
    }
}

impl Check for BelievedWithinLimit {
    fn invariant(&self) -> Invariant {
        Invariant::S1
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Taken {
                session,
                is_guarded: true,
            } => {
                self.guarded.insert(session.clone());
            }
            Happening::Taken { session, .. } => {
                self.taken.insert(session.clone());
            }
            Happening::Restored { session } => {
                self.taken.remove(session);
                self.guarded.remove(session);
            }
            Happening::Changed(change) => {
                self.note_limit(change);
                self.note_pruned(change);
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
            if let Some(belief) =
                held.find(|it| it.who == Who::Ours(host) && it.sessions.contains(&gone))
            {
                return Err(format!(
                    "{belief} goes on after an answer of the watch that shows it gone"
                ));
            }
        }
        let must_be_noticed = self
            .quiet_since
            .is_some_and(|since| at > since + NOTICED_WITHIN);
        let mut sums = BTreeMap::new();
        for belief in held {
            let is_taken = self.is_taken(belief);
            let is_guarded = belief.sessions.iter().any(|it| self.guarded.contains(it));
            if must_be_noticed && (is_taken || is_guarded) && matches!(belief.who, Who::Ours(_)) {
                return Err(format!("{belief} goes on, and was taken away long ago"));
            }
            if is_taken {
                continue;
            }
            let sum: &mut u32 = sums.entry(belief.prefix).or_default();
            *sum += belief.permits;
            if *sum > self.allowed(belief.prefix) {
                let all: Vec<_> = held
                    .iter()
                    .filter(|it| it.prefix == belief.prefix && !self.is_taken(it))
                    .map(ToString::to_string)
                    .collect();
                let limit = self.allowed(belief.prefix);
                return Err(format!(
                    "{sum} are held at once of {limit}: {}",
                    all.join(", ")
                ));
            }
        }
        Ok(())
    }
}
