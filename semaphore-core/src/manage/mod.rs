//! Inspects and manages a semaphore or an election without contending, with one [`Operation`] for
//! each purpose.
//!
//! ```text
//!            poll_transmit          handle_response
//!  Reading ───────────────▶ answer ───▶ step: done, or a write ───▶ Writing
//!     ▲                                                               │
//!     └────────────────────── whatever the answer ────────────────────┘
//! ```
//! After each write it reads again. So a lost, refused or applied answer leads to the same right
//! end. A write that was given up may be applied after that read, unless the index that it names
//! has moved. In that case it is written again, or the end waits.

mod destroy;
mod evict;
mod inspect;
mod leader;
mod resize;
mod verify;

use core::time::Duration;

pub use crate::api::SessionDetails;
pub use destroy::Destroy;
pub use evict::{Evict, Eviction};
pub use inspect::{Inspect, Member, Snapshot};
pub use leader::{DescribeSession, DiscoverLeader};
pub use resize::Resize;
pub use verify::Verify;

use crate::api::{self, ListKeys};
use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::input::{Prefix, Scope};
use crate::machine::{Backoff, Budget, READ_BURST, READ_INTERVAL};
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;
use crate::view::{Lock, View};

/// What an operation does: what it reads, and what follows from that.
pub trait Task {
    /// Its result.
    type Output;

    /// The request whose answer the decision is made from.
    fn read(&self) -> Request;

    /// Decides.
    ///
    /// # Errors
    /// [`RequestError`] if the answer can't be read.
    fn step(&mut self, answer: &Response) -> Result<Step<Self::Output>, RequestError>;

    /// Ends the task, after too many requests in a row have failed transiently.
    ///
    /// # Errors
    /// The last failure, unless the task knows something better.
    fn give_up(&self, error: RequestError) -> Result<Self::Output, Error> {
        Err(error.into())
    }
}

/// What follows from a read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<T> {
    /// The end.
    Done(Result<T, Error>),
    /// Reads something else.
    Read,
    /// Writes, and then reads again.
    Write(Request),
    /// Ends, if no write was given up. What the last write named is unchanged, so that write could
    /// still be applied.
    Unmoved(Result<T, Error>),
}

/// A sans-IO machine that runs one task to its end. It has one request under way at a time, and
/// gives up when too many in a row have failed. It reads at most 50 times at once and 100 times a
/// second in the long run, even if every answer is a success without progress.
#[derive(Debug)]
pub struct Operation<T: Task> {
    task: T,
    state: State<T::Output>,
    backoff: Backoff,
    budget: Budget,
    failures: u32,
    /// Why the last write was given up, if it may still be applied.
    given_up: Option<RequestError>,
    rng: fastrand::Rng,
}

#[derive(Debug)]
enum State<T> {
    Read { at: Instant },
    Reading,
    Write(Box<Request>),
    Writing,
    Done(Option<Result<T, Error>>),
}

impl<T: Task> Operation<T> {
    /// Starts with a read. `seed` decides the jitter of its retries.
    pub fn new(task: T, seed: u64) -> Self {
        Self {
            task,
            state: State::Read {
                at: Instant::ORIGIN,
            },
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(2)),
            budget: Budget::new(READ_INTERVAL, READ_BURST),
            failures: 0,
            given_up: None,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// The request to send at `now`, if there is one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Request> {
        match &mut self.state {
            State::Read { at } if *at <= now => {
                self.state = State::Reading;
                self.budget.take(now);
                Some(self.task.read())
            }
            State::Write(request) => {
                let request = (**request).clone();
                self.state = State::Writing;
                Some(request)
            }
            _ => None,
        }
    }

    /// When to call [`Self::poll_transmit`] again, if no answer arrives before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Read { at } => Some(at),
            _ => None,
        }
    }

    /// Takes the outcome of the last request.
    pub fn handle_response(&mut self, now: Instant, result: &Result<Response, TransportError>) {
        let answer = result
            .as_ref()
            .map_err(|error| RequestError::Transport(error.clone()));
        match self.state {
            State::Reading => match answer.and_then(|answer| self.task.step(answer)) {
                Ok(Step::Done(result)) => self.state = State::Done(Some(result)),
                Ok(Step::Read) => {
                    self.failures = 0;
                    let at = now.max(self.budget.ready_at());
                    self.state = State::Read { at };
                }
                Ok(Step::Write(request)) => self.state = State::Write(Box::new(request)),
                Ok(Step::Unmoved(result)) => match self.given_up.clone() {
                    Some(error) if may_come() => self.retry(now, error),
                    _ => self.state = State::Done(Some(result)),
                },
                Err(error) => self.retry(now, error),
            },
            State::Writing => match self.written(answer.and_then(api::flag)) {
                Ok(true) => {
                    self.failures = 0;
                    let at = now.max(self.budget.ready_at());
                    self.state = State::Read { at };
                }
                Ok(false) => {
                    let at = now + self.backoff.next(&mut self.rng);
                    self.state = State::Read { at };
                }
                Err(error) => self.retry(now, error),
            },
            _ => {}
        }
    }

    /// Its result. It is returned once.
    pub fn poll_output(&mut self) -> Option<Result<T::Output, Error>> {
        match &mut self.state {
            State::Done(result) => result.take(),
            _ => None,
        }
    }

    /// Remembers a write that may be applied after a read that does not show it. The answer to a
    /// later write with the same index settles it, too.
    fn written(&mut self, answer: Result<bool, RequestError>) -> Result<bool, RequestError> {
        match &answer {
            Ok(_) => self.given_up = None,
            Err(error) if !error.was_not_applied() => self.given_up = Some(error.clone()),
            Err(_) => {}
        }
        answer
    }

    fn retry(&mut self, now: Instant, error: RequestError) {
        self.failures += 1;
        self.state = if error.is_permanent() {
            State::Done(Some(Err(error.into())))
        } else if self.failures > MAX_FAILURES {
            State::Done(Some(self.task.give_up(error)))
        } else {
            State::Read {
                at: now + self.backoff.next(&mut self.rng),
            }
        };
    }
}

/// How many reads in a row may fail.
const MAX_FAILURES: u32 = 6;

/// Everything below a prefix. The leader confirms the read.
/// Whether a write that was given up may still come, although a read has not shown it.
fn may_come() -> bool {
    !is_on(Defect::ReadSettles)
}

fn list(prefix: &Prefix, scope: &Scope) -> Request {
    ListKeys {
        prefix,
        wait: None,
        consistent: true,
    }
    .request(scope)
}

/// A semaphore's content and its record, or why there is none.
fn read<'a>(prefix: &Prefix, view: &'a View) -> Result<(&'a Lock, &'a Record), Error> {
    let on = Subject::default();
    let lock = match view.lock() {
        Some(lock) => lock,
        None if view.is_filtered() => return Err(incomplete(prefix)),
        None => return Err(Error::NotFound { on }),
    };
    match &lock.record {
        Ok(record) => Ok((lock, record)),
        Err(conflict) => Err(Error::Conflict {
            key: prefix.record_key(),
            conflict: conflict.clone(),
            on,
        }),
    }
}

fn incomplete(prefix: &Prefix) -> Error {
    Error::IncompleteView {
        prefix: prefix.to_string(),
        on: Subject::default(),
    }
}
