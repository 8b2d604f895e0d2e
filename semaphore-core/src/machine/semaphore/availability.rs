//! How many slots are free, as far as is known.

use core::time::Duration;

use crate::id::SessionId;
use crate::machine::semaphore::knowledge::Knowledge;
use crate::machine::semaphore::roster::{Group, Roster};
use crate::record::Record;
use crate::time::Instant;

/// How many slots of a semaphore were free at Consul's last answer.
///
/// It is for people, metrics and estimates. A slot that was free may be taken by now, or belong to
/// a waiter. Only `try_acquire` tells whether you can have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The slots without a holder. A dead holder's slot counts as held until somebody has removed
    /// it.
    pub permits: u32,
    /// All slots according to the record, or according to the settings if there is no record yet.
    pub limit: u32,
    /// The age of Consul's answer.
    pub age: Duration,
}

impl Availability {
    #[cfg(semaphore_next)]
    pub(in crate::machine) fn new(permits: u32, limit: u32, age: Duration) -> Self {
        Self {
            permits,
            limit,
            age,
        }
    }

    /// From the newest view and our own contenders. `None` if it is unknown. `limit` counts if
    /// there is no record.
    pub(super) fn of(
        now: Instant,
        knowledge: &Knowledge,
        roster: &Roster,
        limit: u32,
    ) -> Option<Self> {
        let observed = knowledge.newest()?;
        let view = &observed.view;
        if view.is_filtered() {
            return None;
        }
        let record = match view.lock().map(|lock| &lock.record) {
            None => None,
            Some(Ok(record)) => Some(record),
            Some(Err(_)) => return None,
        };
        let limit = record.map_or(limit, Record::limit);
        let shown = record.map_or(0, |record| record.holders().len());
        // The answer that grants a slot need not show the record.
        let is_shown = |session: &SessionId| record.is_some_and(|it| it.holds(session.as_str()));
        let ours = roster.those(Group::Held);
        let unshown = ours.filter(|(_, own)| !own.session_id().is_some_and(is_shown));
        let held = u32::try_from(shown + unshown.count()).unwrap_or(u32::MAX);
        Some(Self {
            permits: limit.saturating_sub(held),
            limit,
            age: now.saturating_since(observed.seen_at),
        })
    }
}
