//! Translates a run for the judge that simulation and chaos share.

mod admissions;
mod believers;
mod delays;
mod followers;
mod losses;
mod sessions;

use std::collections::BTreeMap;

use judge::{Event, Lease, Moment, Promise};
use semaphore_core::sans_io::Instant;

use self::admissions::Admissions;
use self::believers::Believers;
use self::delays::Delays;
use self::followers::Followers;
use self::losses::Losses;
use self::sessions::Sessions;
use super::{Bounds, Counts, Invariant, Violation};
use crate::history::{Belief, Ending, Happening};

type Judged = Result<(), Violation>;

pub(super) struct Told {
    judge: judge::Judge,
    believers: Believers,
    delays: Delays,
    admissions: Admissions,
    followers: Followers,
    losses: Losses,
    sessions: Sessions,
    counts: BTreeMap<&'static str, Counts>,
}

impl Told {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            judge: judge::Judge::new(),
            believers: Believers::new(bounds),
            delays: Delays::new(bounds),
            admissions: Admissions::default(),
            followers: Followers::new(bounds),
            losses: Losses::new(bounds),
            sessions: Sessions::new(bounds),
            counts: BTreeMap::new(),
        }
    }

    /// What the checks of the shared judge have done.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, Counts> {
        self.counts.clone()
    }

    pub(super) fn happen(&mut self, at: Instant, what: &Happening) -> Judged {
        self.believers.happen(what);
        self.sessions.happen(at, what);
        if let Happening::SessionEnded {
            by: Ending::Ttl, ..
        } = what
        {
            let counts = self.counts.entry("belief ends with its session");
            counts.or_default().came(true);
        }
        let mut events = self.delays.happen(at, what);
        events.extend(self.admissions.happen(what));
        events.extend(self.followers.happen(at, what));
        events.extend(self.losses.happen(at, what));
        self.tell(at, &events)
    }

    /// The end of a step, with the beliefs at this moment.
    pub(super) fn settle(&mut self, at: Instant, held: &[&Belief]) -> Judged {
        let mut events = self.believers.settle(held);
        events.extend(self.sessions.settle(held));
        events.extend(self.followers.settle(at));
        self.tell(at, &events)
    }

    fn tell(&mut self, at: Instant, events: &[Event]) -> Judged {
        let moment = Moment(at.since_origin());
        events.iter().try_for_each(|event| {
            if let Some((name, is_judged)) = judged(event) {
                self.counts.entry(name).or_default().came(is_judged);
            }
            self.judge.hear(moment, event).map_err(|found| Violation {
                invariant: match found.promise {
                    Promise::Limit | Promise::LockDelay => Invariant::S1,
                    Promise::Lease => Invariant::S2,
                    Promise::Fencing => Invariant::S5,
                    Promise::Discovery => Invariant::L1,
                    Promise::TransientFailures => Invariant::L4,
                },
                at,
                what: found.what,
            })
        })
    }
}

/// The name of the check that this event is for, and whether it leaves something to judge.
fn judged(event: &Event) -> Option<(&'static str, bool)> {
    Some(match event {
        Event::Begins { .. } => ("limit", true),
        Event::Acquired { .. } => ("lock delay", true),
        Event::Granted { admitted, .. } => ("tokens rise", !admitted.is_empty()),
        Event::Sees { .. } => ("leaders in their order", true),
        Event::CaughtUp { .. } => ("leaders in time", true),
        Event::Lost {
            lease: Lease::Lasts,
            ..
        } => ("losses that were taken", true),
        Event::Lost {
            lease: Lease::Over { .. },
            ..
        } => ("losses by the lease", true),
        _ => return None,
    })
}
