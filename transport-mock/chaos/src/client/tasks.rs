//! Contenders as tasks, on tokio and on smol.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::{Either, join_all, select};
use semaphore_core::{BlockOn, Error, Permit, Semaphore, Transport};

use super::Plan;
use super::book::{Book, Entry};
use super::turn::{BEAT, Farewell, Turn};
use crate::failure::{Failure, Try as _};
use crate::moment::Moment;
use crate::record::{Slots, Way};

/// Runs all contenders to their end on the backend's runtime.
pub(super) fn run<B>(plan: &Plan, backend: &B, book: &Arc<Book>) -> Result<(), Failure>
where
    B: Transport + BlockOn + Clone + 'static,
{
    let mut ends = Vec::new();
    let mut semaphores = Vec::new();
    let mut number = 0;
    for slots in &plan.semaphores {
        let built = plan.builder(slots).connect(backend.clone());
        let semaphore = built.doing("building a semaphore")?;
        for _ in 0..slots.contenders {
            let contender = Contender {
                backend: backend.clone(),
                semaphore: semaphore.clone(),
                slots: slots.clone(),
                book: Arc::clone(book),
                number,
            };
            number += 1;
            let (end, ended) = oneshot::channel::<()>();
            backend.spawn(Box::pin(async move {
                contender.contend().await;
                drop(end);
            }));
            ends.push(ended);
        }
        semaphores.push(semaphore);
    }
    backend.block_on(Box::pin(async {
        join_all(ends).await;
        join_all(semaphores.iter().map(Semaphore::shutdown)).await;
    }));
    Ok(())
}

struct Contender<B> {
    backend: B,
    semaphore: Semaphore,
    slots: Slots,
    book: Arc<Book>,
    number: u32,
}

impl<B: BlockOn> Contender<B> {
    async fn contend(&self) {
        let mut rng = self.book.rng(self.number);
        while !self.book.must_stop() {
            let turn = Turn::draw(&mut rng, self.slots.limit);
            self.take(&turn).await;
            self.backend.sleep(turn.rest).await;
        }
        self.take(&Turn::last()).await;
    }

    async fn take(&self, turn: &Turn) {
        let entry = self.book.wanted(&self.slots, turn);
        let Some(outcome) = self.acquire(turn).await else {
            return entry.cancelled();
        };
        match outcome {
            Ok(Some(permit)) => {
                self.hold(entry, &permit, turn).await;
                entry.ending(&permit);
                match turn.farewell {
                    Farewell::Release => entry.ended(&permit.release().await),
                    Farewell::Drop => drop(permit),
                }
            }
            Ok(None) => entry.refused(),
            Err(error) => entry.failed(&error),
        }
    }

    /// None when it was cancelled.
    async fn acquire(&self, turn: &Turn) -> Option<Result<Option<Permit>, Error>> {
        let (semaphore, permits) = (&self.semaphore, turn.permits);
        let granted = match turn.way {
            Way::Plain => semaphore.acquire_many(permits).await,
            Way::Timeout => {
                let patience = turn.patience;
                semaphore.acquire_many_timeout(permits, patience).await
            }
            Way::Try => return Some(semaphore.try_acquire_many(permits).await),
            Way::Cancelled => {
                let acquired = semaphore.acquire_many(permits);
                first(acquired, self.backend.sleep(turn.patience)).await?
            }
        };
        Some(granted.map(Some))
    }

    async fn hold(&self, entry: Entry<'_>, permit: &Permit, turn: &Turn) {
        entry.granted(permit);
        let end = Moment::now().plus(turn.hold);
        loop {
            let left = end.since(Moment::now());
            if left.is_zero() || self.book.must_stop() {
                return;
            }
            match first(permit.lost(), self.backend.sleep(left.min(BEAT))).await {
                Some(lost) => return entry.lost(&lost),
                None => entry.beat(permit),
            }
        }
    }
}

/// What `future` returns, unless `alarm` is over before.
async fn first<T>(future: impl Future<Output = T>, alarm: impl Future<Output = ()>) -> Option<T> {
    match select(pin!(future), pin!(alarm)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
