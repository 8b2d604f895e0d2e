//! The line: who of others waits ahead, by the newest list. Between lists it only moves up (rule 5).

use std::collections::{BTreeMap, VecDeque};

use crate::defect::{Defect, is_on};
use crate::id::{Index, SessionId};
use crate::time::Instant;
use crate::view::{Contender as Shown, ContenderFlags, View};
use crate::work;

/// The waiters of others: keys that are tied, not parked and not named, in the order of their
/// `CreateIndex`.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    waiters: VecDeque<Waiter>,
    places: BTreeMap<SessionId, Index>,
    /// The index of the newest list or tree, and of the record in it. `None` before the first.
    shown: Option<(Index, Index)>,
    /// When the newest list was sent, which shows all; a tree of an entry is none.
    listed_at: Option<Instant>,
    /// When somebody else was last seen here, or a write was refused because of the record.
    others_at: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) session: SessionId,
    pub(super) created: Index,
    pub(super) modified: Index,
    /// How many slots its caller wants; `None` if it is of another program.
    wants: Option<u32>,
}

impl Waiter {
    /// How many slots its caller wants, as far as is known.
    pub(super) fn size(&self) -> u32 {
        self.wants.unwrap_or(1)
    }

    /// Another program's key changes after the record, so it does not tell when the record moves.
    pub(super) fn is_foreign(&self) -> bool {
        self.wants.is_none()
    }
}

impl Line {
    /// The newest list or tree.
    pub(super) fn replace(&mut self, view: &View, is_ours: impl Fn(&SessionId) -> bool) {
        let waits = |it: &&Shown| !ContenderFlags::is_parked(it.flags) && !is_ours(&it.session);
        let waiters = view.waiters().filter(waits).map(|it| {
            let ours = ContenderFlags::in_line(it.flags);
            Waiter {
                session: it.session.clone(),
                created: it.create_index,
                modified: it.modify_index,
                wants: ours.map(|flags| flags.size),
            }
        });
        self.waiters = waiters.collect();
        let places = self
            .waiters
            .iter()
            .map(|it| (it.session.clone(), it.created));
        self.places = places.collect();
        self.shown = Some((view.index(), view.record_index()));
    }

    pub(super) fn listed(&mut self, sent_at: Instant) {
        self.listed_at = Some(sent_at);
    }

    pub(super) fn listed_at(&self) -> Option<Instant> {
        self.listed_at
    }

    /// The index of the newest list, for a poll of the prefix.
    pub(super) fn index(&self) -> Index {
        self.shown.map_or(Index::ZERO, |(index, _)| index)
    }

    /// Whether there has been a list or a tree.
    pub(super) fn is_known(&self) -> bool {
        self.shown.is_some()
    }

    /// All of them, the last ones first.
    pub(super) fn nearest(&self) -> impl Iterator<Item = &SessionId> {
        self.waiters.iter().rev().map(|it| &it.session)
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn saw_others(&mut self, now: Instant) {
        self.others_at = Some(now);
    }

    pub(super) fn others_at(&self) -> Option<Instant> {
        self.others_at
    }

    /// Rule 1: how many wait ahead of this place; `None` for one at the end.
    pub(super) fn rank(&self, created: Option<Index>) -> usize {
        let Some(created) = created else {
            return self.waiters.len();
        };
        if is_on(Defect::OutOfTurn) {
            return 0;
        }
        self.waiters.partition_point(|it| it.created < created)
    }

    /// The one just ahead of this place.
    pub(super) fn just_ahead(&self, created: Index) -> Option<&Waiter> {
        let rank = self.rank(Some(created));
        self.waiters.get(rank.checked_sub(1)?)
    }

    /// The first of all.
    pub(super) fn head(&self) -> Option<&Waiter> {
        self.waiters.front()
    }

    /// How this waiter stands in the line.
    pub(super) fn get(&self, session: &SessionId) -> Option<&Waiter> {
        let created = *self.places.get(session)?;
        let from = self.waiters.partition_point(|it| it.created < created);
        let same = self.waiters.iter().skip(from);
        let mut same = same.take_while(|it| it.created == created);
        same.find(|it| it.session == *session)
    }

    /// Rule 5: it was served, so it leaves the line, and so do all before it: they were served or
    /// passed, and who was passed knows its own rank. A group waits where single ones pass, so what
    /// was served behind it proves nothing.
    pub(super) fn served(&mut self, session: &SessionId) {
        let Some(created) = self.places.get(session).copied() else {
            return;
        };
        let mut kept = VecDeque::new();
        while self.waiters.front().is_some_and(|it| it.created <= created)
            && let Some(waiter) = self.waiters.pop_front()
        {
            work::passed(1);
            let stays =
                waiter.session != *session && (waiter.created == created || waiter.size() > 1);
            if stays {
                kept.push_back(waiter);
            } else {
                self.places.remove(&waiter.session);
            }
        }
        for waiter in kept.into_iter().rev() {
            self.waiters.push_front(waiter);
        }
    }
}
