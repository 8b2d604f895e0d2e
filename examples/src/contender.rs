//! What one contender does: acquire, hold, release. Written twice, as a user would: once for tasks,
//! once for threads.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use semaphore_core::{Error, FencingToken, Runtime as _, Semaphore, blocking};

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
    fn granted(&self, _contender: usize, _token: FencingToken) {}
    /// It is about to give it back, or has lost it.
    fn ended(&self, _contender: usize) {}
}

/// An observer who does not look.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Observer for Nobody {}

/// How long one acquisition took.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// From the wish for a slot to the permit.
    pub wait: Duration,
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
            Handle::Blocking(semaphore) => crew.thread(move || self.run_blocking(&semaphore)),
        }
    }

    /// Runs it on the calling thread.
    pub fn run_here(&self, handle: &Handle, host: &Host) -> Outcome {
        match handle {
            Handle::Async(semaphore) => host.wait(self.run(semaphore, host)),
            Handle::Blocking(semaphore) => self.run_blocking(semaphore),
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
        let wait = asked.elapsed();
        let holding = self.gauge.begin(self.number);
        self.observer.granted(self.number, permit.fencing_token());
        let lost = if hold.is_zero() {
            None
        } else {
            match select(pin!(permit.lost()), host.sleep(hold)).await {
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
            wait,
            release: released.elapsed(),
        })
    }

    fn run_blocking(&self, semaphore: &blocking::Semaphore) -> Outcome {
        let mut outcome = Outcome::default();
        for hold in &self.holds {
            match self.round_blocking(semaphore, *hold) {
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
        hold: Duration,
    ) -> Result<Round, Error> {
        let asked = Instant::now();
        let permit = semaphore.acquire_timeout(self.patience)?;
        let wait = asked.elapsed();
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
            wait,
            release: released.elapsed(),
        })
    }
}
