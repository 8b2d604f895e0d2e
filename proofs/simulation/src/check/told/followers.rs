//! What followers of an election know, and what they should know.
//!
//! A request without an answer is given up after 26 s on a clock that may run slow, and the next
//! one follows at most 5 s later. From then on each change is seen as soon as an answer can travel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use judge::{Event, Follower, Place, Sight};
use semaphore_core::sans_io::Instant;

use crate::check::Bounds;
use crate::history::{Followed, Happening, Subject};

/// The longest time without contact after everything works again.
const BACK_WITHIN: Duration = Duration::from_secs(36);

/// The longest time for a change in addition to the travel of answers.
const SLACK: Duration = Duration::from_millis(500);

/// The longest time between two checks of a key, by a slow clock.
const CHECKED_WITHIN: Duration = Duration::from_millis(1_200);

pub(super) struct Followers {
    /// Within this time, a change is seen where polls have their connections.
    travel: Duration,
    /// How much longer it takes on each host.
    unseen: BTreeMap<usize, Duration>,
    quiet_since: Option<Instant>,
    hosts: BTreeSet<usize>,
    /// Those whose client checks for them.
    checked: BTreeSet<usize>,
}

impl Followers {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            travel: bounds.latency * 4 + SLACK,
            unseen: BTreeMap::new(),
            quiet_since: None,
            hosts: BTreeSet::new(),
            checked: BTreeSet::new(),
        }
    }

    /// The judge's events.
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) -> Vec<Event> {
        match what {
            Happening::Booted { host, bounds, .. } => {
                self.unseen.insert(*host, bounds.unseen);
                Vec::new()
            }
            Happening::Quiet => {
                self.quiet_since = Some(at);
                Vec::new()
            }
            Happening::Follows { host, prefix, what } => {
                self.hosts.insert(*host);
                match what {
                    Followed::Begins { polls: true } => _ = self.checked.remove(host),
                    Followed::Begins { polls: false } => _ = self.checked.insert(*host),
                    _ => {}
                }
                follows(*host, Place(*prefix), what)
            }
            Happening::Changed(change) => {
                let Subject::Key { after, .. } = &change.of else {
                    return Vec::new();
                };
                // If a stranger has overwritten the key it has no leader, and no state to show for
                // as long as it keeps its session.
                let place = Place(change.prefix);
                let tied = after.as_ref().and_then(|key| {
                    let session = key.session.as_deref()?;
                    Some((session, key.lock_index > 0))
                });
                let sight = match tied {
                    Some((session, true)) => led(session),
                    Some((_, false)) => Sight::Unknown,
                    None => nobody(),
                };
                vec![Event::Shows { place, sight }]
            }
            _ => Vec::new(),
        }
    }

    /// The judge's events at the end of a step.
    pub(super) fn settle(&self, at: Instant) -> impl Iterator<Item = Event> {
        let is_in_touch = self
            .quiet_since
            .is_some_and(|since| at > since + BACK_WITHIN);
        let hosts = self.hosts.iter().filter(move |_| is_in_touch);
        hosts.map(|host| {
            let unseen = self.unseen.get(host).copied().unwrap_or_default();
            let travel = self.travel + unseen;
            Event::CaughtUp {
                follower: follower(*host),
                within: if self.checked.contains(host) {
                    travel * 2 + CHECKED_WITHIN
                } else {
                    travel
                },
            }
        })
    }
}

fn follows(host: usize, place: Place, what: &Followed) -> Vec<Event> {
    let follower = follower(host);
    let sees = |sight| Event::Sees {
        follower,
        place,
        sight,
        name: format!("node-{host}"),
    };
    match what {
        Followed::Leader(session) => vec![sees(led(session))],
        Followed::Nobody => vec![sees(nobody())],
        // A follower that starts again may begin with an answer that is older than its earlier
        // ones.
        Followed::Begins { .. } | Followed::Nothing => {
            vec![Event::Leaves { follower }, sees(Sight::Unknown)]
        }
        Followed::NoMore => vec![Event::Leaves { follower }],
    }
}

/// Each host follows one election.
fn follower(host: usize) -> Follower {
    Follower(u64::try_from(host).unwrap_or(u64::MAX))
}

fn led(session: &str) -> Sight {
    let (session, value) = (session.to_owned(), None);
    Sight::Led { session, value }
}

fn nobody() -> Sight {
    Sight::Leaderless { value: None }
}
