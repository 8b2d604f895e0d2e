//! S1 with `keep_lost`: a slot whose session has ended stays taken by our own side until its permit is
//! given back or dropped, or until the lock delay is over. Others may take it away, as operators may.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Check, Counts, Invariant, Verdict};
use crate::history::{Belief, Happening, Who};

#[derive(Default)]
pub(super) struct LostIsKept {
    /// By prefix and session: who keeps it, and until when it must.
    kept: BTreeMap<(usize, String), (usize, Instant)>,
    /// When each session ended, or lost what it depends on at a prefix.
    ended: BTreeMap<String, Instant>,
    taken: BTreeMap<(usize, String), Instant>,
    /// What its own side has taken away in this step. Where messages take no time, the permit may have been
    /// given back in the same step, which is told after what changed in Consul.
    taken_by_its_own: BTreeMap<(usize, String), usize>,
    counts: Counts,
}

impl LostIsKept {
    fn lost_at(&self, place: &(usize, String)) -> Option<Instant> {
        let ended = self.ended.get(&place.1);
        ended
            .into_iter()
            .chain(self.taken.get(place))
            .min()
            .copied()
    }

    fn keeps(&mut self, at: Instant, host: usize, place: (usize, String), lock_delay: Duration) {
        // Who is asked to go has lost nothing in Consul.
        let lost_at = self.lost_at(&place).unwrap_or(at);
        self.kept.insert(place, (host, lost_at + lock_delay));
    }
}

impl Check for LostIsKept {
    fn invariant(&self) -> Invariant {
        Invariant::S1
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("lost is kept", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::SessionEnded { session, .. } => {
                self.ended.entry(session.clone()).or_insert(at);
            }
            Happening::Taken {
                session, prefix, ..
            } => {
                let place = (*prefix, session.clone());
                self.taken.entry(place).or_insert(at);
            }
            Happening::Restored { session, prefix } => {
                self.taken.remove(&(*prefix, session.clone()));
            }
            Happening::Keeps {
                host,
                prefix,
                sessions,
                lock_delay,
            } => {
                for session in sessions {
                    self.keeps(at, *host, (*prefix, session.clone()), *lock_delay);
                }
            }
            Happening::KeepsNoMore {
                prefix, sessions, ..
            } => {
                for session in sessions {
                    let place = (*prefix, session.clone());
                    let kept = self.kept.remove(&place);
                    let is_kept = kept.is_some_and(|(_, until)| at < until);
                    let is_taken_now = self.taken_by_its_own.remove(&place).is_some();
                    self.counts.came(is_kept || is_taken_now);
                }
            }
            Happening::Changed(change) => {
                for removed in &change.removed {
                    let place = (change.prefix, removed.session.clone());
                    let Some((host, until)) = self.kept.remove(&place) else {
                        continue;
                    };
                    if change.by == Who::Ours(host) && at < until {
                        self.taken_by_its_own.insert(place, host);
                    }
                }
            }
            // A program that ends drops its permits, which gives back what they kept.
            Happening::Stopped { host } => {
                self.kept.retain(|_, (by, _)| by != host);
                self.taken_by_its_own.retain(|_, by| by != host);
            }
            // A restored snapshot knows no lock delays.
            Happening::NewEpoch => self.kept.clear(),
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, _at: Instant, _held: &[&Belief]) -> Verdict {
        match self.taken_by_its_own.pop_first() {
            None => Ok(()),
            Some(((_, session), host)) => Err(format!(
                "node-{host} takes {session} away, which it keeps until its permit is given back"
            )),
        }
    }
}
