//! L2: a release reaches Consul, however long it takes. After a release no session ends by its TTL,
//! if its host keeps running and had enough time without trouble.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Invariant, Verdict};
use crate::history::{Belief, BeliefNo, Ending, Happening, Who};

/// Long enough for several requests that each meet a fault, and for the pauses between them, which
/// are an eighth of the time so far.
const ENOUGH: Duration = Duration::from_secs(20);

/// The same with a long TTL: each request is waited for a fifth of it, which is two of the longest
/// pauses.
const ENOUGH_PAUSES: u32 = 15;

#[derive(Default)]
pub(super) struct ReleaseGoesOn {
    beliefs: BTreeMap<BeliefNo, Belief>,
    /// The released sessions, with their hosts and moments.
    given: BTreeMap<String, (usize, Instant)>,
    /// Until when each host has trouble.
    troubled: BTreeMap<usize, Instant>,
    all_troubled: Instant,
    /// Whether something was taken away or hidden, so others may have to clean it up.
    is_excused: bool,
    enough: Duration,
}

impl ReleaseGoesOn {
    /// The check judges nothing if releases may be held back.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            is_excused: bounds.holds_back,
            enough: ENOUGH.max(bounds.retry_cap * ENOUGH_PAUSES),
            ..Self::default()
        }
    }
}

impl Check for ReleaseGoesOn {
    fn invariant(&self) -> Invariant {
        Invariant::L2
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Granted { belief, .. } => {
                for session in &belief.sessions {
                    self.given.remove(session);
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
                    let sessions = belief.sessions.into_iter();
                    let sessions = sessions.filter(|it| !others.contains(it));
                    self.given.extend(sessions.map(|it| (it, (host, at))));
                }
            }
            Happening::Lost { belief, .. } => {
                self.beliefs.remove(&belief.no);
            }
            Happening::Stopped { host } => self.given.retain(|_, (by, _)| by != host),
            Happening::Trouble { host: None, until } => {
                self.all_troubled = self.all_troubled.max(*until);
            }
            Happening::Trouble {
                host: Some(host),
                until,
            } => {
                let troubled = self.troubled.entry(*host).or_default();
                *troubled = (*troubled).max(*until);
            }
            Happening::NewEpoch
            | Happening::Blinded { .. }
            | Happening::Revived { .. }
            | Happening::Taken { .. } => self.is_excused = true,
            Happening::SessionEnded { session, by } => {
                let Some((host, since)) = self.given.remove(session) else {
                    return Ok(());
                };
                let troubled = self.troubled.get(&host).copied().unwrap_or_default();
                let quiet_since = since.max(troubled).max(self.all_troubled);
                let time = at.saturating_since(quiet_since);
                if *by == Ending::Ttl && time >= self.enough && !self.is_excused {
                    return Err(format!(
                        "session {session} ends by its TTL: node-{host} gave it back at {since}, and nothing was wrong for {time:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
