//! L4: an acquisition, or another command, only fails for a permanent reason.
//!
//! A host may be told of foreign data, of another limit or of a refusal while there is one, and for
//! as long as an answer of that time may be on its way or asked about again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use super::troubles::Troubles;
use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Happening, KeyState, Subject, Who, Why};

pub(super) struct NothingFails {
    limit: u32,
    /// How long something may be heard of when it is over: by a request under way, or by a poll, whose
    /// token was looked at when it began.
    heard_for: Duration,
    heard_by_polls_for: Duration,
    foreign: BTreeMap<usize, Spell>,
    /// By prefix: the record has another limit than the first one.
    limits: BTreeMap<usize, Spell>,
    /// The prefixes with hosts that were started with another limit.
    rolling: BTreeSet<usize>,
    refused: BTreeMap<usize, Spell>,
    /// In trouble that begins meanwhile, a host does not hear that something is over.
    troubles: Troubles,
    /// A candidate looks at its key by a poll, which may have been lost.
    lost_polls: Troubles,
    /// The prefixes that are elections.
    elections: BTreeSet<usize>,
    counts: Counts,
}

/// Something that is wrong for a while, maybe for several reasons.
#[derive(Default)]
struct Spell {
    reasons: u32,
    ended_at: Option<Instant>,
}

impl Spell {
    fn begins(&mut self) {
        self.reasons += 1;
    }

    fn ends(&mut self, at: Instant) {
        self.reasons = self.reasons.saturating_sub(1);
        self.ended_at = Some(at);
    }

    /// It is, or it is not, from now on.
    fn set(&mut self, at: Instant, is_wrong: bool) {
        if is_wrong {
            self.reasons = 1;
        } else if self.reasons > 0 {
            self.ends(at);
        }
    }

    /// Whether it is, or is still heard of. `troubled` returns until when trouble lasts that had begun
    /// by a moment.
    fn is_heard(
        &self,
        at: Instant,
        heard_for: Duration,
        troubled: impl Fn(Instant) -> Option<Instant>,
    ) -> bool {
        let is_since = |ended: Instant| {
            let heard_until = ended + heard_for;
            let is_late = troubled(heard_until).is_some_and(|until| at <= until + heard_for);
            at <= heard_until || is_late
        };
        self.reasons > 0 || self.ended_at.is_some_and(is_since)
    }
}

impl NothingFails {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            limit: bounds.limit,
            heard_for: bounds.request_timeout * 2 + bounds.latency * 4,
            heard_by_polls_for: bounds.lost_poll + bounds.latency * 4,
            foreign: BTreeMap::new(),
            limits: BTreeMap::new(),
            rolling: BTreeSet::new(),
            refused: BTreeMap::new(),
            troubles: Troubles::default(),
            lost_polls: Troubles::default(),
            elections: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    fn is_excused(&self, at: Instant, host: usize, prefix: usize, why: Why) -> bool {
        let is_election = self.elections.contains(&prefix);
        let troubled = |moment: Instant| {
            let polls = self.lost_polls.begun_by(moment, host);
            let polls = polls.filter(|_| is_election);
            self.troubles.begun_by(moment, host).max(polls)
        };
        let heard = |spells: &BTreeMap<usize, Spell>, of: usize, heard_for| {
            let spell = spells.get(&of);
            spell.is_some_and(|it| it.is_heard(at, heard_for, troubled))
        };
        match why {
            Why::Foreign => heard(&self.foreign, prefix, self.heard_for),
            Why::Limit => {
                self.rolling.contains(&prefix) || heard(&self.limits, prefix, self.heard_for)
            }
            Why::Refused => heard(&self.refused, host, self.heard_by_polls_for),
            Why::Other => false,
        }
    }
}

impl Check for NothingFails {
    fn invariant(&self) -> Invariant {
        Invariant::L4
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("nothing fails", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        self.troubles.happen(at, what);
        if let Happening::Hindered { host, until } = what {
            let (host, until) = (Some(*host), *until);
            self.lost_polls
                .happen(at, &Happening::Trouble { host, until });
        }
        match what {
            Happening::Booted { prefix, bounds, .. } if bounds.limit != self.limit => {
                self.rolling.insert(*prefix);
            }
            Happening::Changed(change) => match &change.of {
                Subject::Record { after, .. } => {
                    let (is_foreign, is_other) = match after {
                        Some(Ok(record)) => (false, record.limit() != self.limit),
                        Some(Err(_)) => (true, false),
                        None => (false, false),
                    };
                    let spell = self.foreign.entry(change.prefix).or_default();
                    spell.set(at, is_foreign);
                    let spell = self.limits.entry(change.prefix).or_default();
                    spell.set(at, is_other);
                }
                Subject::Key { after, .. } => {
                    self.elections.insert(change.prefix);
                    let is_elections = after.as_ref().is_none_or(KeyState::is_elections);
                    let spell = self.foreign.entry(change.prefix).or_default();
                    spell.set(at, !is_elections);
                }
            },
            Happening::Blinded { host }
            | Happening::Narrowed { host }
            | Happening::Denied { host } => self.refused.entry(*host).or_default().begins(),
            Happening::Served { host } => self.refused.entry(*host).or_default().ends(at),
            // It could have failed just as well.
            Happening::Granted { belief, .. } => {
                if let Who::Ours(host) = belief.who {
                    let reasons = [Why::Foreign, Why::Limit, Why::Refused];
                    let mut reasons = reasons.iter();
                    let is_excused =
                        reasons.any(|why| self.is_excused(at, host, belief.prefix, *why));
                    self.counts.came(!is_excused);
                }
            }
            Happening::Failed {
                host,
                prefix,
                why,
                error,
            } => {
                let is_excused = self.is_excused(at, *host, *prefix, *why);
                self.counts.came(!is_excused);
                if !is_excused {
                    return Err(format!("what node-{host} asked for failed: {error}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
