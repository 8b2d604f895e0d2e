//! What one contender does: acquire, hold, release. It is written twice, as a user would: once for
//! tasks, once for threads.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use semaphore_core::{Error, FencingToken, Lost, Semaphore, blocking};

use crate::alarm::Alarm;
use crate::backend::{Handle, Host};
use crate::crew::Crew;
use crate::failure::Failure;
use crate::gauge::Gauge;
use crate::wall::Wall;

/// How often somebody asks who wants to know when a belief ends.
const ASKING: Duration = Duration::from_millis(10);

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
    /// How many slots it takes at once.
    pub slots: u32,
    /// Makes a separate handle for each of its turns, as a program does that keeps none.
    pub connects: Option<Connects>,
    /// How long it waits for a slot.
    pub patience: Duration,
    /// Where its beliefs are collected.
    pub gauge: Arc<Gauge>,
    /// Who is told.
    pub observer: Arc<dyn Observer>,
    /// Where the moments at which a belief begins and ends are told by the machine's clock. The end is
    /// then found by asking, too, which is right at once after the process was frozen.
    pub wall: Option<Arc<Wall>>,
}

/// Makes a handle.
pub type Connects = Arc<dyn Fn() -> Result<Handle, Error> + Send + Sync>;

/// Told what becomes of contenders, while it happens.
pub trait Observer: Send + Sync {
    /// It holds a slot.
    fn granted(&self, contender: usize, token: FencingToken);
    /// It is about to give it back, or has lost it.
    fn ended(&self, contender: usize);
}

/// What the order of the queue is judged by. All contenders of a program have the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// When it wished for a slot: the order of those who share a host.
    Wished(Instant),
    /// Its contender key's `CreateIndex`: the order of hosts in Consul.
    Entered(u64),
}

/// How one acquisition went.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Its turn; none if it is alone on its host and no answer has shown it.
    pub turn: Option<Turn>,
    /// Its permit's: they rise from grant to grant.
    pub token: FencingToken,
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
                crew.task(host, async move { self.run(&semaphore, &own).await })?;
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
            match self.turn_of(semaphore, host, *hold).await {
                Ok(round) => outcome.rounds.push(round),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        outcome
    }

    /// By a separate handle, if it wants one for each turn.
    async fn turn_of(
        &self,
        semaphore: &Semaphore,
        host: &Host,
        hold: Duration,
    ) -> Result<Round, Error> {
        match self.connected()? {
            Some(Handle::Async(own)) => self.round(&own, host, hold).await,
            _ => self.round(semaphore, host, hold).await,
        }
    }

    fn connected(&self) -> Result<Option<Handle>, Error> {
        self.connects
            .as_ref()
            .map(|connects| connects())
            .transpose()
    }

    async fn round(
        &self,
        semaphore: &Semaphore,
        host: &Host,
        hold: Duration,
    ) -> Result<Round, Error> {
        let asked = Instant::now();
        let wanted = semaphore.acquire_many_timeout(self.slots, self.patience);
        let permit = wanted.await?;
        let granted = Instant::now();
        let holding = self.gauge.begin(self.number);
        let (turn, token) = (self.turn(host, asked), permit.fencing_token());
        self.observer.granted(self.number, token);
        self.tell(Wall::granted);
        let lost = if hold.is_zero() {
            None
        } else {
            let over = pin!(self.over(hold, || permit.is_held()));
            match select(pin!(permit.lost()), over).await {
                Either::Left((lost, _)) => Some(lost),
                Either::Right(_) => None,
            }
        };
        self.tell(Wall::ended);
        self.observer.ended(self.number);
        drop(holding);
        let released = Instant::now();
        let result = permit.release().await;
        lost.map_or(result, |lost| Err(Error::Lost(lost)))?;
        Ok(Round {
            turn,
            token,
            wait: granted - asked,
            held: released - granted,
            release: released.elapsed(),
        })
    }

    fn run_blocking(&self, semaphore: &blocking::Semaphore, host: &Host) -> Outcome {
        let mut outcome = Outcome::default();
        for hold in &self.holds {
            match self.turn_of_blocking(semaphore, host, *hold) {
                Ok(round) => outcome.rounds.push(round),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        outcome
    }

    fn turn_of_blocking(
        &self,
        semaphore: &blocking::Semaphore,
        host: &Host,
        hold: Duration,
    ) -> Result<Round, Error> {
        match self.connected()? {
            Some(Handle::Blocking(own)) => self.round_blocking(&own, host, hold),
            _ => self.round_blocking(semaphore, host, hold),
        }
    }

    fn round_blocking(
        &self,
        semaphore: &blocking::Semaphore,
        host: &Host,
        hold: Duration,
    ) -> Result<Round, Error> {
        let asked = Instant::now();
        let permit = semaphore.acquire_many_timeout(self.slots, self.patience)?;
        let granted = Instant::now();
        let holding = self.gauge.begin(self.number);
        let (turn, token) = (self.turn(host, asked), permit.fencing_token());
        self.observer.granted(self.number, token);
        self.tell(Wall::granted);
        let lost = if hold.is_zero() {
            None
        } else if self.wall.is_some() {
            lost_or_over(&permit, hold)
        } else {
            permit.lost_timeout(hold)
        };
        self.tell(Wall::ended);
        self.observer.ended(self.number);
        drop(holding);
        let released = Instant::now();
        let result = permit.release();
        lost.map_or(result, |lost| Err(Error::Lost(lost)))?;
        Ok(Round {
            turn,
            token,
            wait: granted - asked,
            held: released - granted,
            release: released.elapsed(),
        })
    }

    /// Waits until the hold is over, or as well until it is not held any more where that is told.
    async fn over(&self, hold: Duration, is_held: impl Fn() -> bool) {
        if self.wall.is_none() {
            return self.alarm.sleep(hold).await;
        }
        let end = Instant::now() + hold;
        while is_held() && Instant::now() < end {
            self.alarm.sleep(ASKING).await;
        }
    }

    fn tell(&self, what: impl FnOnce(&Wall)) {
        if let Some(wall) = &self.wall {
            what(wall);
        }
    }

    fn turn(&self, host: &Host, asked: Instant) -> Option<Turn> {
        if self.is_alone {
            host.place().index().map(Turn::Entered)
        } else {
            Some(Turn::Wished(asked))
        }
    }
}

fn lost_or_over(permit: &blocking::Permit, hold: Duration) -> Option<Lost> {
    let end = Instant::now() + hold;
    while permit.is_held() && Instant::now() < end {
        if let Some(lost) = permit.lost_timeout(ASKING) {
            return Some(lost);
        }
    }
    None
}
