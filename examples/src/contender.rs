//! What one contender does: acquire, hold, release. Written twice, as a user would: once for tasks,
//! once for threads.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use semaphore_core::{Error, FencingToken, Semaphore, blocking};

use crate::alarm::Alarm;
use crate::backend::{Handle, Host};
use crate::crew::Crew;
use crate::failure::Failure;
use crate::gauge::Gauge;

/// A contender before it starts.
#[derive(Clone)]
pub struct Contender {
    /// Which one it is.
    pub number: usize,
    /// How long it holds each of its slots: one round for each.
    pub holds: Vec<Duration>,
    /// Ends its holds where it is a task.
    pub alarm: Alarm,
    /// Whether nobody else contends on its host, so that the requests of the host are its own.
    pub is_alone: bool,
    /// How long it waits for a slot.
    pub patience: Duration,
    /// Where its beliefs are collected.
    pub gauge: Arc<Gauge>,
    /// Who is told.
    pub observer: Arc<dyn Observer>,
}

/// Told what becomes of contenders, while it happens.
pub trait Observer: Send + Sync {
    /// It holds a slot.
    fn granted(&self, contender: usize, token: FencingToken);
    /// It is about to give it back, or has lost it.
    fn ended(&self, contender: usize);
}

/// How one acquisition went.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// When it stood in the queue: when the answer came to the request that tied its key to its
    /// session, or, where others share its host, when it wished for a slot.
    pub queued: Instant,
    /// When it had its permit.
    pub granted: Instant,
    /// From the wish for a slot to the permit.
    pub wait: Duration,
    /// From the permit until just before it was given back.
    pub held: Duration,
    /// From giving it back to knowing that nothing of it is left.
    pub release: Duration,
}

/// The rounds of one contender, and what stopped it before the last, if anything did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Those that were completed.
    pub rounds: Vec<Round>,
    /// What ended the one after.
    pub error: Option<Error>,
}

impl Contender {
    /// Starts it beside others: a task or a thread, as `handle` wants it.
    ///
    /// # Errors
    /// [`Failure::Thread`].
    pub fn start(
        self,
        handle: &Handle,
        host: &Host,
        crew: &mut Crew<Outcome>,
    ) -> Result<(), Failure> {
        match handle.clone() {
            Handle::Async(semaphore) => {
                let own = host.clone();
                crew.task(host, async move { self.run(&semaphore, &own).await });
                Ok(())
            }
            Handle::Blocking(semaphore) => {
                let own = host.clone();
                crew.thread(move || self.run_blocking(&semaphore, &own))
            }
        }
    }

    /// Runs it on the calling thread.
    pub fn run_here(&self, handle: &Handle, host: &Host) -> Outcome {
        match handle {
            Handle::Async(semaphore) => host.wait(self.run(semaphore, host)),
            Handle::Blocking(semaphore) => self.run_blocking(semaphore, host),
        }
    }

    async fn run(&self, semaphore: &Semaphore, host: &Host) -> Outcome {
        let mut outcome = Outcome::default();
        for hold in &self.holds {
            match self.round(semaphore, host, *hold).await {
                Ok(round) => outcome.rounds.push(round),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        outcome
    }

    async fn round(
        &self,
        semaphore: &Semaphore,
        host: &Host,
        hold: Duration,
    ) -> Result<Round, Error> {
        let asked = Instant::now();
        let permit = semaphore.acquire_timeout(self.patience).await?;
        let granted = Instant::now();
        let holding = self.gauge.begin(self.number);
        self.observer.granted(self.number, permit.fencing_token());
        let lost = if hold.is_zero() {
            None
        } else {
            match select(pin!(permit.lost()), pin!(self.alarm.sleep(hold))).await {
                Either::Left((lost, _)) => Some(lost),
                Either::Right(_) => None,
            }
        };
        self.observer.ended(self.number);
        drop(holding);
        let released = Instant::now();
        let result = permit.release().await;
        lost.map_or(result, |lost| Err(Error::Lost(lost)))?;
        Ok(Round {
            queued: self.queued(host, asked, granted),
            granted,
            wait: granted - asked,
            held: released - granted,
            release: released.elapsed(),
        })
    }

    fn run_blocking(&self, semaphore: &blocking::Semaphore, host: &Host) -> Outcome {
        let mut outcome = Outcome::default();
        for hold in &self.holds {
            match self.round_blocking(semaphore, host, *hold) {
                Ok(round) => outcome.rounds.push(round),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        outcome
    }

    fn round_blocking(
        &self,
        semaphore: &blocking::Semaphore,
        host: &Host,
        hold: Duration,
    ) -> Result<Round, Error> {
        let asked = Instant::now();
        let permit = semaphore.acquire_timeout(self.patience)?;
        let granted = Instant::now();
        let holding = self.gauge.begin(self.number);
        self.observer.granted(self.number, permit.fencing_token());
        let lost = if hold.is_zero() {
            None
        } else {
            permit.lost_timeout(hold)
        };
        self.observer.ended(self.number);
        drop(holding);
        let released = Instant::now();
        let result = permit.release();
        lost.map_or(result, |lost| Err(Error::Lost(lost)))?;
        Ok(Round {
            queued: self.queued(host, asked, granted),
            granted,
            wait: granted - asked,
            held: released - granted,
            release: released.elapsed(),
        })
    }

    fn queued(&self, host: &Host, asked: Instant, granted: Instant) -> Instant {
        if !self.is_alone {
            return asked;
        }
        let entered = host.entrances().first_since(asked);
        // A key that was there already is told by no request.
        entered.map_or(asked, |entered| entered.min(granted))
    }
}
