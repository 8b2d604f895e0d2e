//! A task that uses a semaphore in every way, as its plan says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use semaphore_core::{Error, Instant, Permit, Runtime as _, Semaphore};
use transport_mock::MockClient;

use super::book::Book;
use crate::history::Happening;
use crate::plan::{End, How, Turn};

/// How long a permit is held in a round: long enough to ask for all the dead in the record.
pub(super) const ROUND_HOLD: Duration = Duration::from_secs(1);

pub(super) struct User {
    pub(super) host: usize,
    pub(super) prefix: usize,
    pub(super) semaphore: Semaphore,
    /// The host by the true clock.
    pub(super) truth: MockClient,
    pub(super) book: Book,
    pub(super) turns: Arc<Vec<Turn>>,
    /// The turn that is next, also for the process after this one.
    pub(super) next: Arc<AtomicUsize>,
    pub(super) storm_end: Instant,
    /// When each round begins in which everybody gets in.
    pub(super) rounds: [Instant; 2],
}

impl User {
    pub(super) async fn live(self) {
        while self.truth.now() < self.storm_end {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(turn) = self.turns.get(next) else {
                break;
            };
            self.pause(turn.idle).await;
            self.turn(turn).await;
        }
        for round in self.rounds {
            // A network that takes no time would let it in before the round is called.
            let begin = round + Duration::from_nanos(1);
            self.pause(begin.saturating_since(self.truth.now())).await;
            self.get_in().await;
        }
    }

    async fn turn(&self, turn: &Turn) {
        let semaphore = &self.semaphore;
        let outcome = match turn.how {
            How::Acquire => semaphore.acquire_many(turn.permits).await.map(Some),
            How::Within(time) => semaphore
                .acquire_many_timeout(turn.permits, time)
                .await
                .map(Some),
            How::Try => semaphore.try_acquire_many(turn.permits).await,
            How::CancelAfter(time) => {
                let acquire = Box::pin(semaphore.acquire_many(turn.permits));
                match select(acquire, Box::pin(self.pause(time))).await {
                    Either::Left((outcome, _)) => outcome.map(Some),
                    Either::Right(_) => return self.book.unserved("cancelled"),
                }
            }
        };
        match outcome {
            Ok(Some(permit)) => {
                // The storm's holds end with it, or the rest would wait for them.
                let left = self.storm_end.saturating_since(self.truth.now());
                self.hold(permit, turn.hold.min(left), turn.end).await;
            }
            Ok(None) => self.book.unserved("nothing free"),
            Err(Error::Timeout { .. }) => self.book.unserved("timed out"),
            // An instant try fails with the first request that does.
            Err(Error::Request(error)) if turn.how == How::Try && !error.is_permanent() => {
                self.book.unserved("a try's request failed");
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Acquires once more, whatever stands in the way at first.
    async fn get_in(&self) {
        loop {
            match self.semaphore.acquire().await {
                Ok(permit) => {
                    let host = self.host;
                    self.book.happened(Happening::GotIn { host });
                    return self.hold(permit, ROUND_HOLD, End::Release).await;
                }
                Err(error) => self.failed(&error),
            }
            self.pause(Duration::from_millis(500)).await;
        }
    }

    async fn hold(&self, permit: Permit, time: Duration, end: End) {
        let permit = Arc::new(permit);
        let belief = self.book.granted(self.host, self.prefix, &permit);
        let lost = {
            let alarm = Box::pin(self.pause(time));
            match select(Box::pin(permit.lost()), alarm).await {
                Either::Left((reason, _)) => Some(reason),
                Either::Right(_) => None,
            }
        };
        if let Some(reason) = lost {
            self.book.lost(belief, reason);
        }
        self.book.ended(belief);
        let Some(permit) = Arc::into_inner(permit) else {
            return;
        };
        match end {
            End::Drop => drop(permit),
            End::Abandon(time) => {
                select(Box::pin(permit.release()), Box::pin(self.pause(time))).await;
            }
            // It was lost, or its TTL cleans up: both have been told or will be seen.
            End::Release => drop(permit.release().await),
        }
    }

    fn failed(&self, error: &Error) {
        self.book.unserved(match error {
            Error::Conflict { .. } => "the record is something else",
            Error::LimitConflict { .. } => "the limit is another",
            Error::IncompleteView { .. } => "the view is incomplete",
            Error::InvalidInput(_) => "more than the limit",
            Error::Request(_) => "a request failed for good",
            _ => "other",
        });
        let host = self.host;
        let error = format!("{error:?}");
        self.book.happened(Happening::Failed { host, error });
    }

    async fn pause(&self, time: Duration) {
        self.truth.sleep(time).await;
    }
}
