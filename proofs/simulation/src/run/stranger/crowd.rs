//! Hundreds of strangers with a session and a contender key each, who hold at once.
//!
//! One write makes as many holders as there is room for, as if each had written the record in turn. They leave by fifties. Some
//! only end their sessions, so the record names them until somebody prunes it.

use std::time::Duration;

use futures_util::future::join_all;
use judge::Record;
use semaphore_core::adapter::Runtime as _;

use super::{Holding, Visitor, literal};
use crate::plan::STRANGERS_TTL;

/// How many leave with one write.
const AT_ONCE: usize = 50;

/// One in this many dies instead.
const DEAD: usize = 8;

impl Visitor {
    /// They come, hold and go. Nobody renews the sessions, so all is over before their TTL is. `None`
    /// if the record is not theirs to use.
    pub(super) async fn come_together(&self, holders: u32, hold: Duration) -> Option<()> {
        let ends = self.client.now() + STRANGERS_TTL * 4 / 5;
        let all = join_all((0..holders).map(|_| self.enter())).await;
        let all: Vec<String> = all.into_iter().flatten().collect();
        let enter = |record: &mut Record| {
            for session in &all {
                let is_free = record.holders().len() < record.limit() as usize;
                if is_free {
                    record.add(session);
                }
            }
        };
        let record = self.change(enter).await?;
        let time = hold.min(ends.saturating_since(self.client.now()));
        if !time.is_zero() {
            let admitted = all.iter().filter(|it| record.holds(it));
            let sessions = admitted.cloned().collect();
            let (number, prefix) = (self.plan.number, self.plan.prefix);
            let belief = self.book.granted_to_stranger(number, prefix, sessions);
            let end = Holding(&self.book, belief);
            self.book
                .lock()
                .count_fault("record with hundreds of holders");
            self.client.sleep(time).await;
            drop(end);
        }
        let (dead, leaving) = all.split_at(all.len() / DEAD);
        for some in leaving.chunks(AT_ONCE) {
            let leaves = |holder: &str| some.iter().any(|it| it == holder);
            self.change(|record| record.retain(|holder| !leaves(holder)))
                .await?;
            join_all(some.iter().map(|session| self.leave(session))).await;
        }
        let ended = dead.iter().map(|session| async move {
            let destroy = literal::destroy(session);
            self.send(&destroy).await
        });
        join_all(ended).await;
        Some(())
    }

    /// Changes the record by check-and-set, or begins one.
    async fn change(&self, change: impl Fn(&mut Record)) -> Option<Record> {
        loop {
            let seen = self.read(None).await?;
            let lock = seen.get(&self.prefix.record_key());
            let mut record = match &lock {
                None => Record::spelled(self.limit, self.spelling),
                Some(lock) => lock.record()?,
            };
            if record.spelling() != self.spelling {
                return None;
            }
            change(&mut record);
            let found = lock.map_or(0, |lock| lock.modify_index());
            if self.store(found, &record).await? {
                return Some(record);
            }
        }
    }
}
