//! How many may believe, and which beliefs count.
//!
//! A holder may still believe after its session has ended, with its node or by an operator, while
//! it does not know. So it may after its session has ended by the TTL, if a leader that has lost its
//! majority goes on to renew it. Its belief counts: its lock delay keeps others away for that time.
//! But a stranger does not wait for the lock delay, and a lock delay that was chosen too short is over
//! too soon: then two can overlap. If an operator takes a place away in another way, two can
//! overlap until the holder learns of it: from that act on it does not count. A limit below the
//! number of holders applies only to those who come later.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Event, Hold, Place};

use crate::check::Bounds;
use crate::history::{Belief, BeliefNo, Change, Ending, Happening, Subject, Who};

pub(super) struct Believers {
    bounds: Bounds,
    limits: BTreeMap<usize, Limit>,
    /// The prefixes whose limit the judge does not know yet.
    limited: BTreeSet<usize>,
    /// The limits that the judge knows.
    known: BTreeMap<usize, u32>,
    /// The sessions that may overlap with others. A shared session may do so at one prefix only.
    taken: BTreeSet<(usize, String)>,
    /// The sessions that have ended, but whose place is still guarded.
    guarded: BTreeSet<(usize, String)>,
    /// Those that have ended by their TTL, where a former leader may have renewed them.
    renewed_in_vain: BTreeSet<String>,
    /// The beliefs that the judge knows.
    believing: Vec<BeliefNo>,
}

struct Limit {
    limit: u32,
    /// After a lower limit, more may hold until they have left.
    allowed: u32,
}

impl Believers {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limits: BTreeMap::new(),
            limited: BTreeSet::new(),
            known: BTreeMap::new(),
            taken: BTreeSet::new(),
            guarded: BTreeSet::new(),
            renewed_in_vain: BTreeSet::new(),
            believing: Vec::new(),
        }
    }

    pub(super) fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Taken {
                session,
                prefix,
                is_guarded: true,
            } => {
                self.guarded.insert((*prefix, session.clone()));
            }
            Happening::Taken {
                session, prefix, ..
            } => {
                self.taken.insert((*prefix, session.clone()));
            }
            Happening::SessionEnded {
                session,
                by: Ending::Ttl,
            } if self.bounds.of_yesterday.is_some() => {
                self.renewed_in_vain.insert(session.clone());
            }
            Happening::Restored { session, prefix } => {
                let at = (*prefix, session.clone());
                self.taken.remove(&at);
                self.guarded.remove(&at);
            }
            Happening::Changed(change) => {
                self.note_limit(change);
                self.note_pruned(change);
            }
            _ => {}
        }
    }

    /// The judge's events at the end of a step. First the beliefs that have ended, then this step's
    /// limits, and then the new beliefs.
    pub(super) fn settle(&mut self, held: &[&Belief]) -> Vec<Event> {
        if held.is_empty() && self.believing.is_empty() && self.limited.is_empty() {
            return Vec::new();
        }
        let counts = |belief: &&&Belief| !belief.is_among(&self.taken);
        let counted: Vec<&Belief> = held.iter().filter(counts).copied().collect();
        let now = counted.iter().map(|belief| belief.no).collect();
        let before = std::mem::replace(&mut self.believing, now);
        let gone = before.iter().filter(|no| !self.believing.contains(no));
        let mut events: Vec<_> = gone.map(|no| Event::Ends { hold: hold(*no) }).collect();
        for prefix in std::mem::take(&mut self.limited) {
            events.extend(self.limit(prefix));
        }
        for belief in counted {
            if !before.contains(&belief.no) {
                events.extend(self.limit(belief.prefix));
                events.push(begins(belief));
            }
        }
        events
    }

    /// The limit of this prefix, if the judge does not know it.
    fn limit(&mut self, prefix: usize) -> Option<Event> {
        let limit = self.limits.get(&prefix);
        let permits = limit.map_or(self.bounds.limit, |it| it.limit.max(it.allowed));
        let place = Place(prefix);
        let is_news = self.known.insert(prefix, permits) != Some(permits);
        is_news.then_some(Event::Allowed { place, permits })
    }

    fn note_limit(&mut self, change: &Change) {
        self.limited.insert(change.prefix);
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

    /// Strangers prune without waiting.
    fn note_pruned(&mut self, change: &Change) {
        let is_record = matches!(change.of, Subject::Record { .. });
        if let (Who::Stranger(_), true) = (change.by, is_record) {
            let pruned = change.removed.iter();
            let pruned = pruned.map(|it| (change.prefix, it.session.clone()));
            self.taken
                .extend(pruned.filter(|it| {
                    self.guarded.contains(it) || self.renewed_in_vain.contains(&it.1)
                }));
        }
    }
}

fn hold(no: BeliefNo) -> Hold {
    Hold(no.0.into())
}

fn begins(belief: &Belief) -> Event {
    Event::Begins {
        hold: hold(belief.no),
        place: Place(belief.prefix),
        permits: belief.permits,
        name: belief.to_string(),
    }
}
