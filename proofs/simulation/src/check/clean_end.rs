//! L2: nothing of ours outlives us.
//!
//! A client that destroys its session has left the record by then, and no write of it that is still
//! under way can bring it back. In an election a late write may do so; then the end of the session
//! frees the key. After all have left there is no session, contender key or holder. If an operator
//! was involved, only the end is checked. The same holds if the record was deleted after a write
//! that created one had been given up. That write applies if there is no record, and PROMISES
//! leaves the result to the next contender that prunes.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::sans_io::Instant;

use super::clouded::Clouded;
use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Belief, BeliefNo, Change, Ending, Happening, Subject, Who};

pub(super) struct CleanEnd {
    bounds: Bounds,
    /// Sessions that were destroyed by the host that had created them.
    left: BTreeSet<String>,
    holders: BTreeMap<usize, BTreeSet<String>>,
    taken: BTreeSet<(usize, String)>,
    /// Sessions for which a late message acquired an election's key, or created a deleted record
    /// again.
    late: BTreeSet<String>,
    /// The prefixes at which the record was deleted.
    deleted: BTreeSet<usize>,
    /// When each session acquired an election's key.
    tied_at: BTreeMap<String, Instant>,
    counts: Counts,
    clouded: Clouded,
    beliefs: BTreeMap<BeliefNo, Belief>,
    owners: BTreeMap<String, Who>,
    /// What was given back under a cloud: a step that Consul refused may have been left out.
    left_out: BTreeSet<(usize, String)>,
    /// What a snapshot brought back, of which its owner may know nothing.
    revived: BTreeSet<String>,
}

impl CleanEnd {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            left: BTreeSet::new(),
            holders: BTreeMap::new(),
            taken: BTreeSet::new(),
            late: BTreeSet::new(),
            deleted: BTreeSet::new(),
            tied_at: BTreeMap::new(),
            counts: Counts::default(),
            clouded: Clouded::default(),
            beliefs: BTreeMap::new(),
            owners: BTreeMap::new(),
            left_out: BTreeSet::new(),
            revived: BTreeSet::new(),
        }
    }

    /// Whether its destroyer could not know yet that the session held an election's key, when it
    /// sent the destruction. Then the session's end frees the key.
    fn was_just_tied(&self, at: Instant, session: &str) -> bool {
        let tied_at = self.tied_at.get(session);
        tied_at.is_some_and(|tied_at| at <= *tied_at + self.bounds.latency * 2)
    }

    /// What this host has in records and does not hold may stay there.
    fn leave_out(&mut self, host: usize) {
        let held = |prefix: usize, session: &String| {
            let mut beliefs = self.beliefs.values();
            beliefs.any(|it| it.prefix == prefix && it.sessions.contains(session))
        };
        for (prefix, holders) in &self.holders {
            for session in holders {
                let is_its = self.owners.get(session) == Some(&Who::Ours(host));
                if is_its && !held(*prefix, session) {
                    self.left_out.insert((*prefix, session.clone()));
                }
            }
        }
    }

    fn is_clouded(&self, by: Who) -> bool {
        matches!(by, Who::Ours(host) if self.clouded.is_hampered(host))
    }

    fn is_late(&self, at: Instant, change: &Change) -> bool {
        let may_be_late = match change.of {
            Subject::Key { .. } => true,
            Subject::Record { ref before, .. } => {
                before.is_none() && self.deleted.contains(&change.prefix)
            }
        };
        let is_on_time = |sent: Instant| at <= sent + self.bounds.latency;
        may_be_late && !change.sent_at.is_some_and(is_on_time)
    }
}

impl Check for CleanEnd {
    fn invariant(&self) -> Invariant {
        Invariant::L2
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("clean end", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        self.clouded.happen(what);
        match what {
            Happening::Left { what } => return Err(format!("{what} is left")),
            Happening::SessionBegan { session, owner } => {
                self.owners.insert(session.clone(), *owner);
            }
            Happening::GaveUp { host, .. } if self.clouded.is_hampered(*host) => {
                self.leave_out(*host);
            }
            // What was given back just before may be refused, too.
            Happening::Blinded { host } | Happening::Narrowed { host } => self.leave_out(*host),
            Happening::Revived { session } => {
                self.revived.insert(session.clone());
            }
            Happening::Granted { belief, .. } => {
                for session in &belief.sessions {
                    self.left_out.remove(&(belief.prefix, session.clone()));
                }
                self.beliefs.insert(belief.no, belief.clone());
            }
            Happening::Released { belief } => {
                if let Some(belief) = self.beliefs.remove(belief)
                    && self.is_clouded(belief.who)
                {
                    let sessions = belief.sessions.into_iter();
                    self.left_out.extend(sessions.map(|it| (belief.prefix, it)));
                }
            }
            Happening::Taken {
                session, prefix, ..
            } => {
                self.taken.insert((*prefix, session.clone()));
            }
            Happening::SessionEnded {
                session,
                by: Ending::Destroyed(by @ Who::Ours(_)),
            } => {
                self.left.insert(session.clone());
                let mut places = self.holders.iter().filter(|(_, it)| it.contains(session));
                let is_taken = |prefix| {
                    let of = (prefix, session.clone());
                    self.taken.contains(&of) || self.left_out.contains(&of)
                };
                let stays = places.any(|(prefix, _)| !is_taken(*prefix));
                let is_late = self.late.contains(session) || self.was_just_tied(at, session);
                let is_judged =
                    !is_late && !self.revived.contains(session) && !self.is_clouded(*by);
                self.counts.came(is_judged);
                if stays && is_judged {
                    return Err(format!("{by} leaves, and {session} stays in the record"));
                }
            }
            Happening::Changed(change) => {
                self.holders.insert(change.prefix, change.holders());
                if matches!(change.of, Subject::Record { after: None, .. }) {
                    self.deleted.insert(change.prefix);
                }
                if matches!(change.of, Subject::Key { .. }) {
                    let tied = change.added.iter().map(|it| (it.clone(), at));
                    self.tied_at.extend(tied);
                }
                // What an operator writes back, its owner may know nothing of.
                if self.is_late(at, change) || change.by == Who::Operator {
                    self.late.extend(change.added.iter().cloned());
                }
                let (by, added) = (change.by, &change.added);
                // It may be shown a record without what it has just written.
                if self.is_clouded(by) {
                    let unseen = added.iter().map(|it| (change.prefix, it.clone()));
                    self.left_out.extend(unseen);
                }
                let late = added.iter().find(|it| self.left.contains(*it));
                if let (Who::Ours(_), Some(session)) = (by, late)
                    && !self.is_clouded(by)
                {
                    return Err(format!("{by} has left, and {session} gets into the record"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
