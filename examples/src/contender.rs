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

/// How often the end of a belief is checked.
const ASKING: Duration = Duration::from_millis(10);

/// A contender before it starts.
#[derive(Clone)]
pub struct Contender {
    /// Its number.
    pub number: usize,
    /// How long it holds each of its slots, one round each.
    pub holds: Vec<Duration>,
    /// Ends its holds, if it is a task.
    pub alarm: Alarm,
    /// Whether it is the only contender on its host, so that all requests of the host are its own.
    pub is_alone: bool,
    /// How many slots it takes at once.
    pub slots: u32,
    /// Makes a new handle for each of its turns, as a program does that keeps none.
    pub connects: Option<Connects>,
    /// How long it waits for a slot.
    pub patience: Duration,
    /// Collects its beliefs.
    pub gauge: Arc<Gauge>,
    /// Is told what happens.
    pub observer: Arc<dyn Observer>,
    /// Reports the beginning and the end of a belief by the machine's clock. The end is then also
    /// found by checking, which is right at once after the process was frozen.
    pub wall: Option<Arc<Wall>>,
}

/// Makes a handle.
pub type Connects = Arc<dyn Fn() -> Result<Handle, Error> + Send + Sync>;

/// Is told what happens to contenders.
pub trait Observer: Send + Sync {
    /// It holds a slot.
    fn granted(&self, contender: usize, token: FencingToken);
    /// It will give it back now, or has lost it.
    fn ended(&self, contender: usize);
}

/// What decides the order of the queue. All contenders of a program have the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// When it asked for a slot: the order of those who share a host.
    Wished(Instant),
    /// The `CreateIndex` of its contender key: the order of hosts in Consul.
    Entered(u64),
}

/// The course of one acquisition.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Its turn. `None` if it is alone on its host and no answer has shown it.
    pub turn: Option<Turn>,
    /// The permit's token. Tokens grow from grant to grant.
    pub token: FencingToken,
    /// From the request for a slot to the permit.
    pub wait: Duration,
    /// From the permit until just before it was given back.
    pub held: Duration,
    /// From giving it back until nothing of it is left.
    pub release: Duration,
}

/// The rounds of one contender, and what stopped it early, if anything did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The completed rounds.
    pub rounds: Vec<Round>,
    /// What ended the next one.
    pub error: Option<Error>,
}

impl Contender {
    /// Starts it beside others, as a task or a thread, depending on `handle`.
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

    /// With a new handle, if it wants one for each turn.
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

    /// Waits until the hold is over. If its end is to be reported, it also returns as soon as it is
    /// not held any more.
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
