//! The record as Consul last said it, and the index that the next write of it names.

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::error::Conflict;
use crate::id::Index;
use crate::machine::process::moment::Moment;
use crate::record::Record;
use crate::time::Instant;
use crate::view::Lock;

/// The newest record that was seen.
#[derive(Clone, Debug)]
pub(super) struct KnownRecord {
    /// `ModifyIndex` of `.lock`, for the check-and-set; zero if there is none.
    index: Index,
    content: Content,
    /// The index of the answer that said so, where a poll continues. Without a record it is all that
    /// tells older answers from newer ones.
    as_of: Index,
    /// When it was last said, and in which order.
    seen_at: Instant,
    seen: Moment,
    /// Since when every record that was seen left room (rule 7), and how long that is looked at.
    room: Option<Room>,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Unknown,
    Missing,
    Record(Record),
    Unreadable(Conflict),
}

/// Room that nobody takes.
#[derive(Clone, Copy, Debug)]
struct Room {
    since: Instant,
    patience: Duration,
}

/// What an answer says of the record.
#[derive(Debug)]
pub(super) struct Told {
    /// The order in which it was asked for.
    pub(super) moment: Moment,
    pub(super) lock: Option<Lock>,
    /// The index of the answer.
    pub(super) as_of: Index,
    /// It is an applied write of ours, or a list that is compared with our keys besides: its names are
    /// no news.
    pub(super) is_ours: bool,
}

/// How an answer relates to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Older,
    Same,
    Newer,
}

impl KnownRecord {
    pub(super) fn new() -> Self {
        Self {
            index: Index::ZERO,
            content: Content::Unknown,
            as_of: Index::ZERO,
            seen_at: Instant::ORIGIN,
            seen: Moment::START,
            room: None,
        }
    }

    /// `k`: what a check-and-set names.
    pub(super) fn index(&self) -> Index {
        self.index
    }

    /// Where a poll of it continues.
    pub(super) fn polled_from(&self) -> Index {
        self.index.max(self.as_of)
    }

    pub(super) fn seen_at(&self) -> Instant {
        self.seen_at
    }

    pub(super) fn seen(&self) -> Moment {
        self.seen
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    pub(super) fn is_known(&self) -> bool {
        !matches!(self.content, Content::Unknown)
    }

    /// The record, if there is one that can be read.
    pub(super) fn get(&self) -> Option<&Record> {
        match &self.content {
            Content::Record(record) => Some(record),
            Content::Unknown | Content::Missing | Content::Unreadable(_) => None,
        }
    }

    pub(super) fn names(&self, session: &str) -> bool {
        self.get().is_some_and(|record| record.holds(session))
    }

    /// The record that a write changes: what is there, or a new one. `None` if nobody may write it.
    pub(super) fn to_write(&self, limit: u32) -> Option<Record> {
        match &self.content {
            Content::Record(record) => Some(record.clone()),
            Content::Missing => Some(Record::new(limit)),
            Content::Unknown | Content::Unreadable(_) => None,
        }
    }

    /// How this record, in an answer of index `as_of`, relates to the known one. An absent record has
    /// no index, so the answer's counts.
    pub(super) fn compare(&self, lock: Option<&Lock>, as_of: Index) -> News {
        if !self.is_known() {
            return News::Newer;
        }
        let index = index_of(lock);
        let (known, shown) = match (self.index, index) {
            (Index::ZERO, Index::ZERO) => return News::Same,
            (Index::ZERO, shown) => (self.as_of, shown),
            (known, Index::ZERO) => (known, as_of),
            both => both,
        };
        if shown > known {
            News::Newer
        } else if shown == known && self.index == index && self.reads_as(lock) {
            News::Same
        } else {
            News::Older
        }
    }

    /// Whether it says what is known. Something else at the same index was written after a snapshot
    /// was restored, or before: only a confirmed list tells.
    fn reads_as(&self, lock: Option<&Lock>) -> bool {
        match (&self.content, lock.map(|lock| &lock.record)) {
            (Content::Record(known), Some(Ok(shown))) => known.says_the_same_as(shown),
            (Content::Record(_), Some(Err(_))) | (Content::Unreadable(_), Some(Ok(_))) => false,
            _ => true,
        }
    }

    /// The same was said again.
    pub(super) fn confirm(&mut self, now: Instant, seen: Moment, as_of: Index) {
        self.seen_at = now;
        self.seen = seen;
        self.as_of = self.as_of.max(as_of);
    }

    /// This is the newest record. Returns what it replaces.
    pub(super) fn replace(
        &mut self,
        now: Instant,
        seen: Moment,
        lock: Option<Lock>,
        as_of: Index,
    ) -> Content {
        // Rule 7. Others may have come and gone since the last one was seen.
        let seen_at = self.seen_at;
        self.room.take_if(|room| seen_at + room.patience < now);
        self.index = index_of(lock.as_ref());
        self.as_of = as_of.max(self.index);
        self.seen_at = now;
        self.seen = seen;
        let content = match lock.map(|lock| lock.record) {
            None => Content::Missing,
            Some(Err(_)) if is_on(Defect::GarbageOverwritten) => Content::Missing,
            Some(Ok(record)) => Content::Record(record),
            Some(Err(conflict)) => Content::Unreadable(conflict),
        };
        core::mem::replace(&mut self.content, content)
    }

    /// Whether there is room now, for which nobody else claims. It counts from the first of the
    /// records that all left some.
    pub(super) fn leaves_room(
        &mut self,
        now: Instant,
        is_room: bool,
        patience: impl FnOnce() -> Duration,
    ) {
        match (is_room, self.room) {
            (false, _) => self.room = None,
            (true, Some(_)) => {}
            (true, None) => {
                self.room = Some(Room {
                    since: now,
                    patience: patience(),
                });
            }
        }
    }

    /// A claim out of turn has used the room up.
    pub(super) fn took_room(&mut self) {
        self.room = None;
    }

    /// Until when others may take the room that there is (PATIENCE).
    pub(super) fn patient_until(&self) -> Option<Instant> {
        let room = self.room.filter(|_| !is_on(Defect::PatienceInfinite));
        room.map(|room| room.since + room.patience)
    }
}

/// Zero if there is no record.
fn index_of(lock: Option<&Lock>) -> Index {
    lock.map_or(Index::ZERO, |lock| lock.modify_index)
}
