//! A task that uses a semaphore or an election in all ways, according to its plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use semaphore_core::adapter::{Instant, Runtime as _};
use semaphore_core::{Conflict, Error, Lost};
use transport_mock::MockClient;

use super::book::Book;
use super::contest::{Contest, Held};
use crate::history::{BeliefNo, Happening, Why};
use crate::plan::{End, How, Turn};

/// How long a permit is held in a round: long enough to ask about all dead holders in the record.
pub(super) const ROUND_HOLD: Duration = Duration::from_secs(1);

pub(super) struct User {
    pub(super) host: usize,
    pub(super) prefix: usize,
    pub(super) contest: Contest,
    /// The host with the true clock.
    pub(super) truth: MockClient,
    pub(super) book: Book,
    pub(super) turns: Arc<Vec<Turn>>,
    /// The next turn, which the next process continues with.
    pub(super) next: Arc<AtomicUsize>,
    pub(super) storm_end: Instant,
    /// When each round begins in which everybody must get in.
    pub(super) rounds: [Instant; 2],
    /// After this time without a grant, an acquisition must give the reason. It is set if only a
    /// refusal can be the reason.
    pub(super) explains_after: Option<Duration>,
    /// If it keeps lost slots, how long its work takes to stop then.
    pub(super) stops_within: Option<Duration>,
    /// How long Consul guards what its sessions held.
    pub(super) lock_delay: Duration,
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
            // If the network takes no time, it would get in before the round is announced.
            let begin = round + Duration::from_nanos(1);
            self.pause(begin.saturating_since(self.truth.now())).await;
            self.get_in().await;
        }
    }

    async fn turn(&self, turn: &Turn) {
        let (contest, permits) = (&self.contest, turn.permits);
        self.waits(permits);
        let outcome = match turn.how {
            How::Acquire => contest.wait(permits).await.map(Some),
            How::Within(time) => contest.wait_for(permits, time).await.map(Some),
            How::Try => contest.take(permits).await,
            How::CancelAfter(time) => {
                let wait = Box::pin(contest.wait(permits));
                match select(wait, Box::pin(self.pause(time))).await {
                    Either::Left((outcome, _)) => outcome.map(Some),
                    Either::Right(_) => {
                        self.gave_up(permits);
                        return self.book.unserved("cancelled");
                    }
                }
            }
        };
        if !matches!(outcome, Ok(Some(_))) {
            self.gave_up(permits);
        }
        match outcome {
            Ok(Some(held)) => {
                // The storm's holds end with the storm. Otherwise the others would have to wait.
                let left = self.storm_end.saturating_since(self.truth.now());
                let time = turn.hold.min(left);
                self.hold(held, time, turn.changes, turn.end).await;
            }
            Ok(None) => self.book.unserved("nothing free"),
            Err(
                ref error @ Error::Timeout {
                    waited,
                    last_failure: None,
                    ..
                },
            ) if self.explains_after.is_some_and(|after| waited > after) => self.failed(error),
            Err(Error::Timeout { .. }) => self.book.unserved("timed out"),
            // An instant try fails with the first request that fails.
            Err(Error::Request(error)) if turn.how == How::Try && !error.is_permanent() => {
                self.book.unserved("a try's request failed");
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Acquires once more, whatever prevents it at first.
    async fn get_in(&self) {
        if let Contest::Election(_) = self.contest {
            let prefix = self.prefix;
            self.book.happened(Happening::Campaigns { prefix });
        }
        loop {
            self.waits(1);
            match self.contest.wait(1).await {
                Ok(held) => {
                    let (host, prefix) = (self.host, self.prefix);
                    self.book.happened(Happening::GotIn { host, prefix });
                    return self.hold(held, ROUND_HOLD, 0, End::Release).await;
                }
                Err(error) => {
                    self.gave_up(1);
                    self.failed(&error);
                }
            }
            self.pause(Duration::from_millis(500)).await;
        }
    }

    async fn hold(&self, held: Held, time: Duration, changes: u32, end: End) {
        let held = Arc::new(held);
        let belief = self.book.granted(self.host, self.prefix, &held);
        let lost = {
            let work = Box::pin(self.work(&held, belief, time, changes));
            match select(Box::pin(held.lost()), work).await {
                Either::Left((reason, _)) => Some(reason),
                Either::Right(_) => None,
            }
        };
        let kept = self
            .stops_within
            .filter(|_| lost.as_ref().is_some_and(is_kept));
        let is_lost = lost.is_some();
        if let Some(reason) = lost {
            self.book.lost(belief, reason);
        }
        self.book.ended(belief);
        let (host, prefix, sessions) = (self.host, self.prefix, held.sessions());
        if kept.is_some() {
            let (sessions, lock_delay) = (sessions.clone(), self.lock_delay);
            self.book.happened(Happening::Keeps {
                host,
                prefix,
                sessions,
                lock_delay,
            });
        }
        if let Some(time) = self.stops_within.filter(|_| is_lost) {
            self.book.lock().count_fault("lost slot kept for a while");
            let left = self.storm_end.saturating_since(self.truth.now());
            self.pause(time.min(left)).await;
        }
        if kept.is_some() {
            self.book.happened(Happening::KeepsNoMore {
                host,
                prefix,
                sessions,
            });
        }
        let Some(held) = Arc::into_inner(held) else {
            return;
        };
        match end {
            End::Drop => drop(held),
            End::Abandon(time) => {
                select(Box::pin(held.give_back()), Box::pin(self.pause(time))).await;
            }
            // It was lost, or its TTL cleans up. Both have been reported or will be seen.
            End::Release => drop(held.give_back().await),
        }
    }

    /// Holds for `time`, and changes the value `changes` times. A change that takes too long is
    /// given up.
    async fn work(&self, held: &Held, belief: BeliefNo, time: Duration, changes: u32) {
        let change = async {
            for change in 1..=changes {
                self.pause(time / (changes + 1)).await;
                let value = format!("node-{}, {}.{change}", self.host, belief.0);
                match held.set_value(&value).await {
                    Ok(()) => self.book.happened(Happening::ValueSet { belief, value }),
                    // The loss is being reported at this moment.
                    Err(Error::Lost(_)) => {}
                    Err(error) => self.failed(&error),
                }
            }
        };
        let end = self.truth.now() + time;
        select(Box::pin(change), Box::pin(self.pause(time))).await;
        self.pause(end.saturating_since(self.truth.now())).await;
    }

    fn failed(&self, error: &Error) {
        self.book.unserved(match error {
            Error::Conflict { .. } => "the record is something else",
            Error::NotAnElection { .. } => "the key is something else",
            Error::LimitConflict { .. } => "the limit is another",
            Error::IncompleteView { .. } => "the view is incomplete",
            Error::InvalidInput { .. } => "more than the limit",
            Error::Request(_) => "a request failed for good",
            _ => "other",
        });
        if is_of_an_operators_write(error) {
            return;
        }
        self.book.happened(Happening::Failed {
            host: self.host,
            prefix: self.prefix,
            why: Why::of(error),
            error: format!("{error:?}"),
        });
    }

    fn waits(&self, permits: u32) {
        let (host, prefix) = (self.host, self.prefix);
        self.book.happened(Happening::Waits {
            host,
            prefix,
            permits,
        });
    }

    fn gave_up(&self, permits: u32) {
        let (host, prefix) = (self.host, self.prefix);
        self.book.happened(Happening::GaveUp {
            host,
            prefix,
            permits,
        });
    }

    async fn pause(&self, time: Duration) {
        self.truth.sleep(time).await;
    }
}

/// Whether a lost slot stays taken, with `keep_lost`: nobody has removed its session from the record.
fn is_kept(reason: &Lost) -> bool {
    matches!(
        reason,
        Lost::SessionGone { .. } | Lost::ContenderKeyTaken { .. } | Lost::Evicted { .. }
    )
}

/// Whether the error only says that an operator has overwritten a leader's value. That ends with
/// that leader.
pub(super) fn is_of_an_operators_write(error: &Error) -> bool {
    matches!(
        error,
        Error::NotAnElection {
            conflict: Conflict::Overwritten,
            ..
        }
    )
}
