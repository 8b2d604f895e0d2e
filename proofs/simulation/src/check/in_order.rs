//! Queue: waiters for a semaphore are served in the order in which their contender keys were
//! created, with the exceptions of PROMISES and no others.
//!
//! A waiter is passed without fault
//! - if there are slots for all who wait before it and for those who passed it,
//! - if its key is newer than what the other host knew when it sent its claim,
//! - if its host could not act, the other one may not see it, or a slot had been free for half a
//!   second: it was left unused,
//! - if another one behind it was served: it counts as served until the next list, which comes after
//!   5 s for each place in the line,
//! - if a slot passes among the callers of one process, for 70 ms, or 3 ms for each slot and 300 ms
//!   at most,
//! - if the slot was that of a dead holder: it goes to the waiter whose clock is first to say that the
//!   lock delay is over,
//! - if it stands for a caller who waits for several slots, or for no caller any more.

use std::collections::{BTreeMap, BTreeSet};

use judge::Moment;
use judge::queue::{Filled, LEFT_UNUSED, Pace, Queue};
use semaphore_core::sans_io::Instant;

use super::callers::Callers;
use super::vigour::Vigour;
use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Change, Happening, Subject, Waiting, Who};
use crate::plan::{FASTEST_CLOCK, SLOWEST_CLOCK};

pub(super) struct InOrder {
    pace: Pace,
    vigour: Vigour,
    callers: Callers,
    /// The hosts whose requests wait for connections.
    sharing: BTreeSet<usize>,
    prefixes: BTreeMap<usize, Queue>,
    /// When each session has ended. A dead holder's slot is one that is left unused, too.
    ended: BTreeMap<String, Instant>,
    /// When a session was taken out of the record: it was no waiter before.
    left: BTreeMap<(usize, String), Instant>,
    /// How long the state is known that each host relies on at each prefix: when it learned it, and of
    /// when it is.
    informed: BTreeMap<(usize, usize), Vec<(Instant, Instant)>>,
    counts: Counts,
}

impl InOrder {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            pace: Pace {
                travel: bounds.latency * 4,
                slowest: SLOWEST_CLOCK,
                fastest: FASTEST_CLOCK,
            },
            vigour: Vigour::default(),
            callers: Callers::default(),
            sharing: BTreeSet::new(),
            prefixes: BTreeMap::new(),
            ended: BTreeMap::new(),
            left: BTreeMap::new(),
            informed: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// The moment of the state of this prefix that the host relied on at that time.
    fn known_at(&self, (host, prefix): (usize, usize), at: Instant) -> Instant {
        let informed = self.informed.get(&(host, prefix));
        let mut informed = informed.into_iter().flatten().rev();
        let known = informed.find(|(learned, _)| *learned <= at);
        known.map(|(_, of)| *of).unwrap_or_default()
    }

    fn changed(&mut self, at: Instant, change: &Change) {
        let Subject::Record { after, .. } = &change.of else {
            return;
        };
        let is_free = match after {
            Some(Ok(record)) => Some(record.holders().len() < record.limit() as usize),
            // Who does not see it goes on counting how long a slot has been free.
            Some(Err(_)) => None,
            None => Some(true),
        };
        if let Some(is_free) = is_free {
            let filled = Filled {
                is_free,
                // A stranger passes whom it likes. Who sees it named takes those before it for served.
                is_of_the_dead: change.removed.iter().any(|it| !it.is_alive)
                    || !matches!(change.by, Who::Ours(_)) && !change.added.is_empty(),
                newest: order(at),
                ahead: change.ahead.iter().map(|it| order(it.since)).max(),
            };
            let queue = self.prefixes.entry(change.prefix).or_default();
            queue.changed(self.pace, moment(at), filled, &change.added);
        }
        for removed in &change.removed {
            let place = (change.prefix, removed.session.clone());
            self.left.insert(place, at);
        }
    }

    fn judge(&mut self, at: Instant, change: &Change, host: usize) -> Verdict {
        let Subject::Record {
            after: Some(Ok(after)),
            ..
        } = &change.of
        else {
            return Ok(());
        };
        let (holders, limit) = (after.holders().len(), after.limit() as usize);
        if change.waiting == 0 {
            return Ok(());
        }
        let sent_at = change.sent_at.unwrap_or(at);
        let is_dead = |it: &String| {
            let ended = self.ended.get(it);
            ended.is_some_and(|ended| *ended + LEFT_UNUSED <= sent_at)
        };
        let is_of_the_dead = change.removed.iter().any(|it| !it.is_alive)
            || after.holders().any(|it| is_dead(&it.to_owned()));
        let sees_all = self.vigour.since(host, change.prefix).is_some();
        if change.ahead.is_empty() || is_of_the_dead || !sees_all {
            self.counts.came(change.ahead.is_empty());
            return Ok(());
        }
        let known = self.known_at((host, change.prefix), sent_at);
        // Who was just taken out of the record waits from then on, if at all.
        let since = |waiting: &Waiting| {
            let left = (change.prefix, waiting.session.clone());
            self.left
                .get(&left)
                .map_or(waiting.since, |left| (*left).max(waiting.since))
        };
        let travel = self.pace.travel;
        let known_ahead: Vec<(&Waiting, Instant)> = change
            .ahead
            .iter()
            .map(|it| (it, since(it)))
            .filter(|(_, since)| *since + travel < known)
            .collect();
        if holders + known_ahead.len() <= limit {
            self.counts.came(false);
            return Ok(());
        }
        let (pace, queue) = (self.pace, self.prefixes.entry(change.prefix).or_default());
        let passes_within = change.removed.iter().any(|it| it.owner == Some(change.by));
        let mut wrong = None;
        for (waiting, since) in &known_ahead {
            let Waiting {
                session,
                owner: Who::Ours(owner),
                ..
            } = waiting
            else {
                continue;
            };
            let vigour = self.vigour.since(*owner, change.prefix);
            let can_act = vigour.is_some_and(|since| sent_at > since + LEFT_UNUSED)
                && !self.sharing.contains(owner);
            let callers = self.callers.of(change.prefix, *owner);
            let is_expected = callers.is_some_and(|waiting| {
                !waiting.is_wide() && sent_at > waiting.since + pace.travel + LEFT_UNUSED
            });
            // The claim was decided when it was sent.
            let sent = (moment(sent_at), moment(at));
            let may_pass = queue.may_pass(pace, sent, order(*since), known_ahead.len());
            let is_within = passes_within && queue.may_stay(pace, moment(at), session);
            if may_pass || !can_act || !is_expected || is_within {
                continue;
            }
            wrong.get_or_insert_with(|| session.clone());
        }
        self.counts.came(wrong.is_some());
        match wrong {
            Some(session) => Err(format!(
                "{} takes a slot before the waiter {session}, who was known to stand ahead",
                change.by
            )),
            None => Ok(()),
        }
    }
}

impl Check for InOrder {
    fn invariant(&self) -> Invariant {
        Invariant::Queue
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("in order", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        self.vigour.happen(at, what);
        self.callers.happen(at, what);
        match what {
            Happening::Booted { host, bounds, .. } if !bounds.held_up.is_zero() => {
                self.sharing.insert(*host);
            }
            Happening::Informed { host, prefix, of } => {
                let informed = self.informed.entry((*host, *prefix)).or_default();
                informed.push((at, *of));
                // No request is on its way for so many answers.
                if informed.len() > 512 {
                    informed.drain(..256);
                }
            }
            Happening::SessionEnded { session, .. } => {
                self.ended.insert(session.clone(), at);
            }
            // Indexes no longer tell who came first.
            Happening::NewEpoch | Happening::Revived { .. } => self.informed.clear(),
            Happening::Changed(change) => {
                // Before the first record, every slot is free.
                if let Subject::Record { before: None, .. } = &change.of {
                    let queue = self.prefixes.entry(change.prefix).or_default();
                    queue.is_free(Moment::default(), true);
                }
                let verdict = match change.by {
                    Who::Ours(host) if !change.added.is_empty() => self.judge(at, change, host),
                    _ => Ok(()),
                };
                self.changed(at, change);
                return verdict;
            }
            _ => {}
        }
        Ok(())
    }
}

fn moment(at: Instant) -> Moment {
    Moment(at.since_origin())
}

/// Who came later has a higher number.
fn order(came: Instant) -> u64 {
    u64::try_from(came.since_origin().as_nanos()).unwrap_or(u64::MAX)
}
