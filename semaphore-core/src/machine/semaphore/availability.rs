//! How many slots are free, as far as is known.

use core::time::Duration;

use super::Participant;
use crate::id::SessionId;
use crate::record::Record;
use crate::time::Instant;

/// How many slots of a semaphore were free when Consul said so last.
///
/// It is for people, metrics and estimates: a slot that was free may be taken by now, or belong to those who wait.
/// `try_acquire` alone says whether one can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The slots without a holder. The slot of a holder that has died counts as held until somebody has taken it away.
    pub permits: u32,
    /// All slots, as the semaphore's record has it; as it was given here where there is no record yet.
    pub limit: u32,
    /// How long ago Consul said so.
    pub age: Duration,
}

impl Participant {
    /// How many slots are free, from what was learned last. None where nothing is known: nobody waits or holds here, the first
    /// answer is still to come, or the record can't be read. Nothing is sent for it.
    pub fn availability(&self, now: Instant) -> Option<Availability> {
        let observed = self.knowledge.newest()?;
        let view = &observed.view;
        if view.is_filtered() {
            return None;
        }
        let record = match view.lock().map(|lock| &lock.record) {
            None => None,
            Some(Ok(record)) => Some(record),
            Some(Err(_)) => return None,
        };
        let limit = record.map_or(self.settings.limit, Record::limit);
        let shown = record.map_or(0, |record| record.holders().len());
        // The answer that grants a slot need not show the record.
        let ours = self.roster.all().filter(|own| {
            let is_shown =
                |session: &SessionId| record.is_some_and(|it| it.holds(session.as_str()));
            own.is_held() && !own.session_id().is_some_and(is_shown)
        });
        let held = u32::try_from(shown + ours.count()).unwrap_or(u32::MAX);
        Some(Availability {
            permits: limit.saturating_sub(held),
            limit,
            age: now.saturating_since(observed.seen_at),
        })
    }
}
