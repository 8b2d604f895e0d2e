//! What each session needs next, and when: kept up to date with each change of one of them.
//!
//! A pool may have thousands of sessions. So an event only costs work for those it concerns.

use std::collections::BTreeSet;

use crate::time::Instant;
use crate::work;

/// A session's number: the lowest that is free is lent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionNo(pub(super) u64);

impl SessionNo {
    pub(super) const FIRST: Self = Self(0);
    const LAST: Self = Self(u64::MAX);
}

/// What the pool must know of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Listed {
    /// When its next request is due.
    pub(super) due_at: Option<Instant>,
    /// When it is ended, or given up.
    pub(super) ends_at: Option<Instant>,
    pub(super) rank: Rank,
    pub(super) asks: Asks,
}

/// How the leader is asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Asks {
    #[default]
    Alone,
    /// It waits for a question about many.
    WithOthers,
}

/// Who is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Rank {
    /// Somebody holds with it.
    Held {
        turn: Turn,
        deadline: Option<Instant>,
    },
    #[default]
    Other,
    /// It has yet to be created.
    New,
}

/// A session that waits for an answer has its next request after the first ones of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    First,
    Next,
}

#[derive(Clone, Debug)]
pub(super) struct Agenda {
    due: BTreeSet<(Instant, SessionNo)>,
    ends: BTreeSet<(Instant, SessionNo)>,
    unconfirmed: BTreeSet<SessionNo>,
    held: usize,
    /// When the following were brought up to date: those that were due then.
    looked_at: Instant,
    urgent: BTreeSet<(Turn, Option<Instant>, SessionNo)>,
    others: BTreeSet<(Instant, SessionNo)>,
    new: BTreeSet<(Instant, SessionNo)>,
}

impl Agenda {
    pub(super) const fn new() -> Self {
        Self {
            due: BTreeSet::new(),
            ends: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            held: 0,
            looked_at: Instant::ORIGIN,
            urgent: BTreeSet::new(),
            others: BTreeSet::new(),
            new: BTreeSet::new(),
        }
    }

    /// A session has changed.
    pub(super) fn update(&mut self, no: SessionNo, before: Listed, after: Listed) {
        if before == after {
            return;
        }
        if let Some(at) = before.due_at {
            self.due.remove(&(at, no));
            self.forget(no, at, before.rank);
        }
        if let Some(at) = before.ends_at {
            self.ends.remove(&(at, no));
        }
        self.held -= usize::from(before.is_held());
        self.unconfirmed.remove(&no);
        if let Some(at) = after.due_at {
            self.due.insert((at, no));
            if at <= self.looked_at {
                self.is_ready(no, at, after.rank);
            }
        }
        self.ends.extend(after.ends_at.map(|at| (at, no)));
        self.held += usize::from(after.is_held());
        if after.asks == Asks::WithOthers {
            self.unconfirmed.insert(no);
        }
    }

    fn is_ready(&mut self, no: SessionNo, at: Instant, rank: Rank) {
        match rank {
            Rank::Held { turn, deadline } => _ = self.urgent.insert((turn, deadline, no)),
            Rank::Other => _ = self.others.insert((at, no)),
            Rank::New => _ = self.new.insert((at, no)),
        }
    }

    fn forget(&mut self, no: SessionNo, at: Instant, rank: Rank) {
        match rank {
            Rank::Held { turn, deadline } => _ = self.urgent.remove(&(turn, deadline, no)),
            Rank::Other => _ = self.others.remove(&(at, no)),
            Rank::New => _ = self.new.remove(&(at, no)),
        }
    }

    /// Finds those that are due now. `rank` is what is listed for each.
    pub(super) fn look(&mut self, now: Instant, rank: impl Fn(SessionNo) -> Option<Rank>) {
        if now < self.looked_at {
            return;
        }
        let since = self
            .due
            .range((self.looked_at, SessionNo::FIRST)..=(now, SessionNo::LAST));
        let since: Vec<_> = since.copied().collect();
        work::passed(since.len());
        for (at, no) in since {
            if let Some(rank) = rank(no) {
                self.is_ready(no, at, rank);
            }
        }
        self.looked_at = now;
    }

    /// Of the due sessions with which somebody holds, the one whose lease ends first.
    pub(super) fn most_urgent(&self) -> Option<SessionNo> {
        self.urgent.first().map(|(_, _, no)| *no)
    }

    /// The first of the others that are due.
    pub(super) fn next_other(&self, may_create: bool) -> Option<SessionNo> {
        let new = self.new.first().filter(|_| may_create);
        let first = self.others.first().into_iter().chain(new).min();
        first.map(|(_, no)| *no)
    }

    /// How many sessions somebody holds with.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Those that wait for a question about many.
    pub(super) fn unconfirmed(&self) -> &BTreeSet<SessionNo> {
        &self.unconfirmed
    }

    /// When the first request is due, from this time on.
    pub(super) fn due_from(&self, from: Instant) -> Option<Instant> {
        let mut due = self.due.range((from, SessionNo::LAST)..);
        due.next().map(|(at, _)| *at)
    }

    /// When the first one is ended.
    pub(super) fn ends(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Those that are ended now.
    pub(super) fn ended(&self, now: Instant) -> Vec<SessionNo> {
        let over = self.ends.range(..=(now, SessionNo::LAST));
        over.map(|(_, no)| *no).collect()
    }

    /// Those that are ended some time.
    pub(super) fn ending(&self) -> Vec<SessionNo> {
        self.ends.iter().map(|(_, no)| *no).collect()
    }
}

impl Listed {
    fn is_held(&self) -> bool {
        matches!(self.rank, Rank::Held { .. })
    }
}
