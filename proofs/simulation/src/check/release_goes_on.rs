//! L2: a release reaches Consul, however long it takes, and so does the end of an acquisition that
//! was cancelled, ran out of time or failed. A session that its host knows and does not use any more
//! never ends by its TTL, if the host keeps running and had enough time without trouble.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::clouded::Clouded;
use super::troubles::Troubles;
use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Belief, BeliefNo, Ending, Happening, Who};

/// Long enough for several requests that each meet a fault, and for the pauses between them, which
/// are an eighth of the time so far.
const ENOUGH: Duration = Duration::from_secs(20);

/// The same with a long TTL: each request is waited for a fifth of it, which is two of the longest
/// pauses.
const ENOUGH_PAUSES: u32 = 15;

/// Where answers come after their requests were given up: three TTLs. In 46,000 worlds it took two. A
/// session that is renewed after that, though nobody needs it, is found.
const ENOUGH_PAUSES_IF_SLOW: u32 = 30;

#[derive(Default)]
pub(super) struct ReleaseGoesOn {
    beliefs: BTreeMap<BeliefNo, Belief>,
    /// The sessions that hosts know, and since when nothing is held with each of them.
    known: BTreeMap<String, (usize, Instant)>,
    /// When a user of each host last gave up waiting.
    gave_up: BTreeMap<usize, Instant>,
    /// How much longer it may take on each host.
    held_up: BTreeMap<usize, Duration>,
    troubles: Troubles,
    clouded: Clouded,
    /// What each host gave back while something was refused to it.
    refused: BTreeSet<(usize, String)>,
    enough: Duration,
    counts: Counts,
}

impl ReleaseGoesOn {
    pub(super) fn new(bounds: Bounds) -> Self {
        let pauses = if bounds.is_slow {
            ENOUGH_PAUSES_IF_SLOW
        } else {
            ENOUGH_PAUSES
        };
        // Where no answer need come in time, nothing need ever end.
        let is_heard = bounds.latency * 2 <= bounds.request_timeout;
        let pauses = if is_heard { pauses } else { u32::MAX };
        Self {
            enough: ENOUGH.max(bounds.retry_cap.saturating_mul(pauses)),
            ..Self::default()
        }
    }

    /// What this host does not hold may have been given up while something was refused to it: a step
    /// that Consul refuses for good is left out (PROMISES).
    fn forget_unused(&mut self, host: usize) {
        let held: BTreeSet<_> = self.beliefs.values().flat_map(|it| &it.sessions).collect();
        self.known
            .retain(|session, (by, _)| *by != host || held.contains(session));
    }

    fn ended(&mut self, at: Instant, session: &str, by: Ending) -> Verdict {
        let Some((host, since)) = self.known.remove(session) else {
            return Ok(());
        };
        // What is held must be renewed, which other checks judge.
        let mut held = self.beliefs.values().flat_map(|it| &it.sessions);
        if held.any(|it| it == session) {
            return Ok(());
        }
        if by != Ending::Ttl {
            self.counts.came(by == Ending::Destroyed(Who::Ours(host)));
            return Ok(());
        }
        let last = |of: &BTreeMap<usize, Instant>| of.get(&host).copied().unwrap_or_default();
        let quiet_since = since
            .max(last(&self.gave_up))
            .max(self.troubles.until(host));
        let time = at.saturating_since(quiet_since);
        let held_up = self.held_up.get(&host).copied().unwrap_or_default();
        let is_judged = time >= self.enough + held_up && !self.clouded.covers(host);
        self.counts.came(is_judged);
        if is_judged {
            return Err(format!(
                "session {session} ends by its TTL: node-{host} needed it no more since {since}, and nothing was wrong for {time:?}"
            ));
        }
        Ok(())
    }
}

impl Check for ReleaseGoesOn {
    fn invariant(&self) -> Invariant {
        Invariant::L2
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("release goes on", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        self.clouded.happen(what);
        self.troubles.happen(at, what);
        match what {
            Happening::Booted { host, bounds, .. } => {
                self.held_up.insert(*host, bounds.held_up);
            }
            Happening::Known { host, session } => {
                self.known.insert(session.clone(), (*host, at));
            }
            // A waiter gets a slot. Whether a caller takes it over is told only with the grant.
            Happening::Changed(change) => {
                for session in &change.added {
                    if let Some((_, since)) = self.known.get_mut(session) {
                        *since = at;
                    }
                }
            }
            // Who comes next does not wait for a release that was refused: it is given up.
            Happening::Waits { host, .. } => {
                let refused = std::mem::take(&mut self.refused);
                for (by, session) in refused {
                    if by == *host {
                        self.known.remove(&session);
                    } else {
                        self.refused.insert((by, session));
                    }
                }
            }
            Happening::GaveUp { host, .. } => {
                self.gave_up.insert(*host, at);
                if self.clouded.covers(*host) {
                    self.forget_unused(*host);
                }
            }
            Happening::Granted { belief, .. } => {
                if let Who::Ours(host) = belief.who {
                    for session in &belief.sessions {
                        self.known.entry(session.clone()).or_insert((host, at));
                    }
                }
                self.beliefs.insert(belief.no, belief.clone());
            }
            Happening::Released { belief } => {
                if let Some(belief) = self.beliefs.remove(belief)
                    && let Who::Ours(host) = belief.who
                {
                    // A shared session is released with the last hold on it.
                    let others = self.beliefs.values();
                    let others: BTreeSet<_> = others.flat_map(|it| &it.sessions).collect();
                    let sessions = belief.sessions.iter();
                    for session in sessions.filter(|it| !others.contains(it)) {
                        if let Some(known) = self.known.get_mut(session) {
                            *known = (host, at);
                        }
                        if self.clouded.covers(host) {
                            self.refused.insert((host, session.clone()));
                        }
                    }
                }
            }
            Happening::Lost { belief, .. } => {
                self.beliefs.remove(&belief.no);
                for session in &belief.sessions {
                    if let Some((_, since)) = self.known.get_mut(session) {
                        *since = at;
                    }
                }
            }
            Happening::Stopped { host } => {
                self.known.retain(|_, (by, _)| by != host);
                self.beliefs.retain(|_, it| it.who != Who::Ours(*host));
            }
            // Its owner knows that it had ended.
            Happening::Revived { session } => {
                self.known.remove(session);
            }
            Happening::SessionEnded { session, by } => return self.ended(at, session, *by),
            _ => {}
        }
        Ok(())
    }
}
