//! L1, of discovery: in quiet, whoever follows an election knows its leader.
//!
//! A request that was left without an answer is given up after 26 s on a clock that may run slow, and the
//! next comes 5 s later at most. From then on each change is seen as soon as an answer can travel.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Invariant, Verdict};
use crate::history::{Belief, Followed, Happening, Subject};

/// How long a follower may be out of touch after everything works again.
const BACK_WITHIN: Duration = Duration::from_secs(36);

/// How long a change may take besides the travel of answers.
const SLACK: Duration = Duration::from_millis(500);

pub(super) struct FollowersKeepUp {
    bounds: Bounds,
    quiet_since: Option<Instant>,
    keys: BTreeMap<usize, (Instant, Followed)>,
    /// By their hosts: which election they follow, and what they know of it.
    followers: BTreeMap<usize, (usize, Followed)>,
}

impl FollowersKeepUp {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            quiet_since: None,
            keys: BTreeMap::new(),
            followers: BTreeMap::new(),
        }
    }
}

impl Check for FollowersKeepUp {
    fn invariant(&self) -> Invariant {
        Invariant::L1
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Quiet => self.quiet_since = Some(at),
            Happening::Follows {
                host,
                what: Followed::NoMore,
                ..
            } => {
                self.followers.remove(host);
            }
            Happening::Follows { host, prefix, what } => {
                self.followers.insert(*host, (*prefix, what.clone()));
            }
            Happening::Changed(change) => {
                if let Subject::Key { after, .. } = &change.of {
                    let session = after.as_ref().and_then(|key| key.session.clone());
                    let shows = session.map_or(Followed::Nobody, Followed::Leader);
                    self.keys.insert(change.prefix, (at, shows));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, at: Instant, _: &[&Belief]) -> Verdict {
        let is_in_touch = self
            .quiet_since
            .is_some_and(|since| at > since + BACK_WITHIN);
        if !is_in_touch {
            return Ok(());
        }
        let travel = self.bounds.latency * 4 + SLACK + self.bounds.unseen;
        for (host, (prefix, known)) in &self.followers {
            let (changed, shows) = match self.keys.get(prefix) {
                Some((changed, shows)) => (*changed, shows),
                None => (Instant::ORIGIN, &Followed::Nobody),
            };
            if at > changed + travel && known != shows {
                return Err(format!(
                    "node-{host} follows and knows {known:?}, and since {changed} it is {shows:?}"
                ));
            }
        }
        Ok(())
    }
}
