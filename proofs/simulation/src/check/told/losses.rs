//! The justification of each loss.
//!
//! The end of the session does, or a client that removed the holder, its contender key or its
//! permission to see them. If the lease ran out, there must have been trouble since shortly after
//! the last time at which a renewal would have kept it. A leader also loses its term when the
//! indexes that identify it are counted again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use judge::{Event, Lease, Place};
use semaphore_core::Lost;
use semaphore_core::sans_io::Instant;

use crate::check::Bounds;
use crate::check::clouded::Clouded;
use crate::history::{Belief, BeliefNo, Happening, Who};
use crate::plan::FASTEST_CLOCK;

/// The longest time of a renewal, in addition to its travel and the wait before it.
const SLACK: Duration = Duration::from_millis(500);

pub(super) struct Losses {
    bounds: Bounds,
    /// Sessions that have ended. Below, those that have left a record or key since they were last
    /// admitted.
    ended: BTreeSet<String>,
    gone: BTreeSet<(usize, String)>,
    /// When their contender key, or what it depended on, was taken away.
    taken_at: BTreeMap<(usize, String), Instant>,
    /// When each was asked to leave.
    evicted_at: BTreeMap<(usize, String), Instant>,
    /// When each host was last asked to step down.
    stepped_down: BTreeMap<(usize, usize), Instant>,
    /// Whose tokens hide something.
    clouded: Clouded,
    /// How many tokens and gateways refuse each host something. It is not known which one ends.
    refusals: BTreeMap<usize, usize>,
    trouble: Vec<Trouble>,
    /// The leases of the hosts that have the connections that they need.
    leases: BTreeMap<usize, Duration>,
    /// Since when each belief has lasted.
    held_since: BTreeMap<BeliefNo, Instant>,
    /// The present beliefs. Below, those of them that existed when indexes started again. A leader
    /// knows its term by indexes.
    holding: BTreeSet<BeliefNo>,
    renumbered: BTreeSet<BeliefNo>,
    /// Sessions that were admitted last. Below, those that were admitted before indexes started
    /// again, which may learn of it late.
    admitted: BTreeSet<String>,
    admitted_before: BTreeSet<String>,
}

/// Something that keeps one host, or all, from Consul.
struct Trouble {
    host: Option<usize>,
    from: Instant,
    until: Instant,
}

/// The end of what lasts on.
const FOR_EVER: Instant = Instant::from_origin(Duration::MAX);

/// How long a claiming contender may not know that something was taken from it, since messages may
/// be late: after that, or after the last trouble of its host.
const UNKNOWN_FOR: Duration = Duration::from_secs(3);

/// At first, a hold is renewed as seldom as a waiter, on a clock that may run slow.
const FIRST_MOMENTS: Duration = Duration::from_millis(300);

impl Losses {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            ended: BTreeSet::new(),
            gone: BTreeSet::new(),
            taken_at: BTreeMap::new(),
            evicted_at: BTreeMap::new(),
            stepped_down: BTreeMap::new(),
            clouded: Clouded::default(),
            refusals: BTreeMap::new(),
            trouble: Vec::new(),
            leases: BTreeMap::new(),
            held_since: BTreeMap::new(),
            holding: BTreeSet::new(),
            renumbered: BTreeSet::new(),
            admitted: BTreeSet::new(),
            admitted_before: BTreeSet::new(),
        }
    }

    /// The judge's event, if any.
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) -> Option<Event> {
        self.clouded.happen(what);
        match what {
            Happening::Trouble { host, until } => {
                self.trouble.push(Trouble {
                    host: *host,
                    from: at,
                    until: *until,
                });
            }
            // While a token may not read what its holds depend on, nothing proves that they last.
            Happening::Blinded { host } => {
                self.trouble.push(Trouble {
                    host: Some(*host),
                    from: at,
                    until: FOR_EVER,
                });
                *self.refusals.entry(*host).or_default() += 1;
            }
            Happening::Narrowed { host } | Happening::Denied { host } => {
                *self.refusals.entry(*host).or_default() += 1;
            }
            Happening::Served { host } => {
                let refusals = self.refusals.entry(*host).or_default();
                *refusals = refusals.saturating_sub(1);
                if *refusals == 0 {
                    let lasts = |it: &&mut Trouble| it.host == Some(*host) && it.until == FOR_EVER;
                    for trouble in self.trouble.iter_mut().filter(lasts) {
                        trouble.until = at;
                    }
                }
            }
            // By the time until now, the lease is that much shorter. That adds to the trouble that the
            // host has now, as while its machine was suspended.
            Happening::Jumped { host, by } => {
                let calm = self.calm(at, *host);
                let until = calm.last().map_or(Instant::ORIGIN, |(_, to)| *to);
                let before = Instant::from_origin(until.since_origin().saturating_sub(*by));
                let place = self.trouble.partition_point(|it| it.from <= before);
                let trouble = Trouble {
                    host: Some(*host),
                    from: before,
                    until: at,
                };
                self.trouble.insert(place, trouble);
            }
            Happening::Booted { host, bounds, .. } => match bounds.lease {
                Some(lease) => _ = self.leases.insert(*host, lease),
                None => _ = self.leases.remove(host),
            },
            Happening::StepsDown { host, prefix } => {
                self.stepped_down.insert((*host, *prefix), at);
            }
            Happening::SessionEnded { session, .. } => {
                self.ended.insert(session.clone());
            }
            Happening::Taken {
                session, prefix, ..
            } => {
                self.gone.insert((*prefix, session.clone()));
                self.taken_at.insert((*prefix, session.clone()), at);
            }
            Happening::Evicted { session, prefix } => {
                self.evicted_at.insert((*prefix, session.clone()), at);
            }
            Happening::Changed(change) => {
                let removed = change.removed.iter();
                let removed = removed.map(|it| (change.prefix, it.session.clone()));
                self.gone.extend(removed);
                for session in &change.added {
                    if change.by != Who::Operator {
                        let of = (change.prefix, session.clone());
                        // A claim, or an attempt to lead, may be sent before its sender knows that
                        // its key was deleted.
                        let troubled = self.troubled_until(&change.by);
                        let is_known = |taken: &Instant| at > troubled.max(*taken) + UNKNOWN_FOR;
                        if self.taken_at.get(&of).is_none_or(is_known) {
                            self.gone.remove(&of);
                        }
                        if self.evicted_at.get(&of).is_some_and(is_known) {
                            self.evicted_at.remove(&of);
                        }
                    }
                    self.admitted_before.remove(session);
                    self.admitted.insert(session.clone());
                }
            }
            Happening::Granted { belief, .. } => {
                self.holding.insert(belief.no);
                self.held_since.insert(belief.no, at);
                let mut sessions = belief.sessions.iter();
                if sessions.any(|it| self.admitted_before.contains(it)) {
                    self.renumbered.insert(belief.no);
                }
            }
            Happening::Released { belief } => {
                self.holding.remove(belief);
            }
            Happening::NewEpoch => {
                self.renumbered.clone_from(&self.holding);
                self.admitted_before.clone_from(&self.admitted);
            }
            Happening::Lost { belief, reason } => return Some(self.lost(at, belief, reason)),
            _ => {}
        }
        None
    }

    fn lost(&self, at: Instant, belief: &Belief, reason: &Lost) -> Event {
        let (was_taken, lease) = match (reason, belief.who) {
            // Whatever else was taken away, the lease could still be renewed.
            (Lost::LeaseExpired { .. }, Who::Ours(host)) => {
                (false, self.lease(at, host, belief.no))
            }
            _ => (self.was_taken(belief, reason), Lease::Lasts),
        };
        Event::Lost {
            place: Place(belief.prefix),
            was_taken,
            lease,
            name: format!("{belief} ({reason})"),
        }
    }

    fn lease(&self, at: Instant, host: usize, belief: BeliefNo) -> Lease {
        let calm = self.calm(at, host);
        // The host's clock may run slow.
        let needed = (self.bounds.retry_cap + self.bounds.latency * 2).mul_f64(1.1) + SLACK;
        let at_the_end = calm.last().filter(|(_, to)| *to == at);
        let in_reach = at_the_end.map_or(Duration::ZERO, |(from, to)| to.saturating_since(*from));
        let lease = self.leases.get(&host).copied();
        let Some(lease) = lease.filter(|_| in_reach < needed) else {
            return Lease::Over { in_reach, needed };
        };
        // If a holder could reach Consul for that long, it had renewed at most a twelfth of the
        // lease before.
        let travel = self.bounds.latency * 4 + SLACK;
        let needed = (lease / 6 + travel).mul_f64(1.1);
        let kept_for = lease.mul_f64((0.9 - 1.0 / 12.0) / FASTEST_CLOCK);
        let held_since = self.held_since.get(&belief).copied().unwrap_or_default() + FIRST_MOMENTS;
        let in_time = calm.iter().filter(|(_, to)| *to + kept_for > at + travel);
        let lengths = in_time.map(|(from, to)| to.saturating_since((*from).max(held_since)));
        let in_reach = lengths.max().unwrap_or_default();
        Lease::Over { in_reach, needed }
    }

    /// The times in which nothing kept the host from Consul, up to now.
    fn calm(&self, at: Instant, host: usize) -> Vec<(Instant, Instant)> {
        let concerns = |it: &&Trouble| it.host.is_none_or(|whose| whose == host);
        let mut calm = Vec::new();
        let mut since = Instant::ORIGIN;
        // They are in the order of their beginnings.
        for trouble in self.trouble.iter().filter(concerns) {
            if trouble.from > since {
                calm.push((since, trouble.from));
            }
            since = since.max(trouble.until);
        }
        if since < at {
            calm.push((since, at));
        }
        calm
    }

    /// When the last trouble of this host ends.
    fn troubled_until(&self, of: &Who) -> Instant {
        let all = self.trouble.iter();
        let those = all.filter(|it| it.host.is_none_or(|host| *of == Who::Ours(host)));
        those.map(|it| it.until).max().unwrap_or_default()
    }

    fn was_taken(&self, belief: &Belief, reason: &Lost) -> bool {
        let is_by_index = matches!(
            reason,
            Lost::KeyDeleted { .. } | Lost::KeyOverwritten { .. } | Lost::KeyReleased { .. }
        );
        let is_asked = |session: &String| {
            let of = (belief.prefix, session.clone());
            self.evicted_at.contains_key(&of)
        };
        let is_evicted = matches!(reason, Lost::Evicted { .. });
        if let (Lost::SteppedDown, Who::Ours(host)) = (reason, belief.who) {
            let asked = self.stepped_down.get(&(host, belief.prefix));
            let since = self.held_since.get(&belief.no);
            return asked.is_some_and(|asked| since.is_none_or(|since| since <= asked));
        }
        (is_by_index && self.renumbered.contains(&belief.no))
            || (is_evicted && belief.sessions.iter().any(is_asked))
            || matches!(belief.who, Who::Ours(host) if self.clouded.is_blinded_at(host, belief.prefix))
            || belief.is_among(&self.gone)
            || belief.sessions.iter().any(|it| self.ended.contains(it))
    }
}
