//! S3: our writes never remove a holder whose session lives and has its contender key, unless the
//! writer made that session and does not hold with it any more. And we never end a foreign session.
//!
//! Only a restored snapshot revives the dead. A client that saw them dead learns of it by the
//! answer to its next requests, and can't stop a write that is under way. Only what was sent before
//! that answer may remove the revived ones.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Instant;

use super::{Check, Counts, Invariant, Verdict};
use crate::history::{Belief, Ending, Happening, Removed, Who};

#[derive(Default)]
pub(super) struct NoLiveHolderRemoved {
    owners: BTreeMap<String, Who>,
    /// The revived sessions, and when each was revived.
    revived: BTreeMap<String, Instant>,
    /// What each host has learned since then of each prefix: when, and how old the state is that it
    /// relies on.
    informed: BTreeMap<(usize, usize), Vec<(Instant, Instant)>>,
    /// What our hosts took in this step from sessions that they had created, and at which prefix.
    given_up: Vec<(Who, Option<usize>, String)>,
    counts: Counts,
}

impl NoLiveHolderRemoved {
    /// Whether the host could not know, when it sent its write at this prefix, that this holder lives
    /// again.
    fn is_excused(&self, at: (usize, usize), sent_at: Option<Instant>, holder: &Removed) -> bool {
        let (Some(revived), Some(sent_at)) = (self.revived.get(&holder.session), sent_at) else {
            return false;
        };
        let mut informed = self.informed.get(&at).into_iter().flatten().rev();
        let known = informed.find(|(at, _)| *at <= sent_at);
        known.is_none_or(|(_, of)| of < revived)
    }
}

impl Check for NoLiveHolderRemoved {
    fn invariant(&self) -> Invariant {
        Invariant::S3
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("no live holder removed", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::SessionBegan { session, owner } => {
                self.owners.insert(session.clone(), *owner);
            }
            Happening::Revived { session } => {
                self.revived.insert(session.clone(), at);
            }
            Happening::Informed { host, prefix, of } if !self.revived.is_empty() => {
                let informed = self.informed.entry((*host, *prefix)).or_default();
                informed.push((at, *of));
            }
            Happening::SessionEnded {
                session,
                by: Ending::Destroyed(by @ Who::Ours(_)),
            } => {
                let owner = self.owners.get(session);
                if owner.is_some_and(|owner| owner != by) {
                    return Err(format!("{by} destroyed session {session} of somebody else"));
                }
                if !self.revived.contains_key(session) {
                    self.given_up.push((*by, None, session.clone()));
                }
            }
            Happening::Changed(change) => {
                let Who::Ours(host) = change.by else {
                    return Ok(());
                };
                let by = change.by;
                for it in &change.removed {
                    let is_excused = self.is_excused((host, change.prefix), change.sent_at, it);
                    self.counts.came(!is_excused);
                    let is_anothers = it.is_alive && it.owner != Some(by);
                    if is_anothers && !is_excused {
                        return Err(format!(
                            "{by} removed the holder {}, which lives",
                            it.session
                        ));
                    }
                    if it.is_alive && it.owner == Some(by) && !is_excused {
                        let session = it.session.clone();
                        self.given_up.push((by, Some(change.prefix), session));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A holder that gives something back has stopped believing.
    fn settle(&mut self, _: Instant, held: &[&Belief]) -> Verdict {
        for (by, prefix, session) in self.given_up.drain(..) {
            let believed = held.iter().find(|belief| {
                belief.who == by
                    && prefix.is_none_or(|prefix| belief.prefix == prefix)
                    && belief.sessions.contains(&session)
            });
            if let Some(belief) = believed {
                return Err(format!("{by} took away {belief}, which goes on"));
            }
        }
        Ok(())
    }
}
