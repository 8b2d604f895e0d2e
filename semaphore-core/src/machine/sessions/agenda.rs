//! When sessions need something. No event visits more of them than it concerns.

use std::collections::BTreeSet;

use crate::time::Instant;

/// Identifies a session of the pool. A later one has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionNo(pub(super) u64);

impl SessionNo {
    pub(super) const FIRST: Self = Self(0);
    const LAST: Self = Self(u64::MAX);
}

/// What is due for one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its creation.
    pub(super) creation: Option<Instant>,
    /// Its destruction.
    pub(super) destruction: Option<Instant>,
    /// Its renewal.
    pub(super) request: Option<Instant>,
    /// Nobody waits for another turn any more.
    pub(super) end: Option<Instant>,
    /// Since when Consul says that it does not exist: the keys of its users are read at once.
    pub(super) unknown: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    creations: BTreeSet<(Instant, SessionNo)>,
    destructions: BTreeSet<(Instant, SessionNo)>,
    requests: BTreeSet<(Instant, SessionNo)>,
    ends: BTreeSet<(Instant, SessionNo)>,
    unknown: BTreeSet<SessionNo>,
}

impl Agenda {
    /// A session has changed.
    pub(super) fn update(&mut self, no: SessionNo, before: Listed, after: Listed) {
        if before == after {
            return;
        }
        for (all, before, after) in [
            (&mut self.creations, before.creation, after.creation),
            (
                &mut self.destructions,
                before.destruction,
                after.destruction,
            ),
            (&mut self.requests, before.request, after.request),
            (&mut self.ends, before.end, after.end),
        ] {
            if let Some(at) = before {
                all.remove(&(at, no));
            }
            all.extend(after.map(|at| (at, no)));
        }
        if after.unknown.is_some() {
            self.unknown.insert(no);
        } else {
            self.unknown.remove(&no);
        }
    }

    /// The first creation.
    pub(super) fn creation(&self) -> Option<(Instant, SessionNo)> {
        self.creations.first().copied()
    }

    /// The first destruction.
    pub(super) fn destruction(&self) -> Option<(Instant, SessionNo)> {
        self.destructions.first().copied()
    }

    /// The first renewal.
    pub(super) fn request(&self) -> Option<(Instant, SessionNo)> {
        self.requests.first().copied()
    }

    /// Those of which Consul says that they don't exist.
    pub(super) fn unknown(&self) -> impl Iterator<Item = SessionNo> {
        self.unknown.iter().copied()
    }

    /// When the first one ends that nobody uses.
    pub(super) fn end(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Those that end by then.
    pub(super) fn ended(&self, now: Instant) -> Vec<SessionNo> {
        let ended = self.ends.range(..=(now, SessionNo::LAST));
        ended.map(|(_, no)| *no).collect()
    }

    /// Those that end some time.
    pub(super) fn ending(&self) -> Vec<SessionNo> {
        self.ends.iter().map(|(_, no)| *no).collect()
    }
}
