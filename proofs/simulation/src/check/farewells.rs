//! L2: what a process holds when its `main` returns is given back, so that nobody waits for its session
//! to end by its TTL.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::clouded::Clouded;
use super::troubles::Troubles;
use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Belief, BeliefNo, Ending, Happening, Who};

/// The default of `Builder::farewell`.
const FAREWELL: Duration = Duration::from_secs(1);

/// A release and the end of a session take this many travels of messages, of which some wait for others.
const TRAVELS: u32 = 10;

pub(super) struct Farewells {
    held: BTreeMap<BeliefNo, Belief>,
    /// The sessions with which somebody held when its process ended: whose, and when.
    left: BTreeMap<String, (usize, Instant)>,
    /// Hosts whose requests wait for connections.
    held_up: BTreeMap<usize, Duration>,
    /// Until when an answer is waited for that never comes.
    hindered: BTreeMap<usize, Instant>,
    troubles: Troubles,
    clouded: Clouded,
    is_too_slow: bool,
    /// After a trouble, requests are repeated within this time.
    repeats: Duration,
    counts: Counts,
}

impl Farewells {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            held: BTreeMap::new(),
            left: BTreeMap::new(),
            held_up: BTreeMap::new(),
            hindered: BTreeMap::new(),
            troubles: Troubles::default(),
            clouded: Clouded::default(),
            is_too_slow: bounds.is_slow || bounds.latency * TRAVELS > FAREWELL,
            repeats: bounds.retry_cap * 2,
            counts: Counts::default(),
        }
    }

    /// Whether this host can give everything back in the time of its farewell, as far as is known.
    fn is_able(&self, at: Instant, host: usize) -> bool {
        let hindered = self.hindered.get(&host).copied().unwrap_or_default();
        let calm_since = self.troubles.until(host).max(hindered);
        let held_up = self.held_up.get(&host).copied().unwrap_or_default();
        at.saturating_since(calm_since) >= self.repeats
            && held_up.is_zero()
            && !self.is_too_slow
            && !self.clouded.covers(host)
    }

    fn leaves(&mut self, at: Instant, host: usize) {
        let is_able = self.is_able(at, host);
        self.held.retain(|_, belief| {
            let is_its = belief.who == Who::Ours(host);
            if is_its && is_able {
                let sessions = belief.sessions.iter();
                self.left
                    .extend(sessions.map(|it| (it.clone(), (host, at))));
            }
            !is_its
        });
    }

    /// What goes wrong during a farewell may cut it short: nobody is there to try again.
    fn goes_wrong(&mut self, at: Instant, host: Option<usize>) {
        self.left.retain(|_, (of, left)| {
            let is_during = at.saturating_since(*left) <= FAREWELL;
            !(is_during && host.is_none_or(|host| host == *of))
        });
    }
}

impl Check for Farewells {
    fn invariant(&self) -> Invariant {
        Invariant::L2
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("farewell gives back", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        self.clouded.happen(what);
        self.troubles.happen(at, what);
        match what {
            Happening::Booted { host, bounds, .. } => {
                self.held_up.insert(*host, bounds.held_up);
            }
            Happening::Hindered { host, until } => _ = self.hindered.insert(*host, *until),
            Happening::Granted { belief, .. } => {
                self.held.insert(belief.no, belief.clone());
            }
            Happening::Released { belief } => _ = self.held.remove(belief),
            Happening::Lost { belief, .. } => _ = self.held.remove(&belief.no),
            Happening::Returns { host } => self.leaves(at, *host),
            Happening::Stopped { host } => {
                self.held.retain(|_, it| it.who != Who::Ours(*host));
            }
            Happening::Trouble { host, .. } => self.goes_wrong(at, *host),
            Happening::Blinded { host }
            | Happening::Narrowed { host }
            | Happening::Denied { host } => self.goes_wrong(at, Some(*host)),
            Happening::SessionEnded { session, by } => {
                let Some((host, left)) = self.left.remove(session) else {
                    return Ok(());
                };
                self.counts.came(true);
                if *by == Ending::Ttl {
                    return Err(format!(
                        "session {session} ends by its TTL: node-{host} held with it when its main returned at {left}, and nothing was wrong"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
