//! The same handles for threads that block, with the same names and meanings.
//!
//! [`Semaphore::builder`], [`Election::builder`] and [`Discovery::builder`] make them, with the
//! options of the async handles. Don't call them on a thread that runs async tasks.
//!
//! ```
//! use semaphore_core::blocking::Semaphore;
//! # use transport_mock::MockConsul;
//! # let world = MockConsul::new(1);
//! # let transport = world.client("node-1");
//!
//! let semaphore = Semaphore::builder("service/db", 3).value("node-1").connect(transport)?;
//! let permit = semaphore.acquire()?;
//! while permit.is_held() {
//!     // One step of the work.
//! #   break;
//! }
//! permit.release()?;
//! # Ok::<(), semaphore_core::Error>(())
//! ```

mod client;
mod discovery;
mod election;
mod terms;

pub use client::Client;
pub use discovery::{Discovery, Follower};

use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::sync::Arc;

pub use election::{Election, Leadership};
pub use terms::Terms;

use super::lost_signal::LostSignal;
use super::{Permit as AsyncPermit, Semaphore as AsyncSemaphore};
use crate::error::{Awaited, Error, Lost, Refusal};
use crate::id::{FencingToken, SessionId};
use crate::input::Prefix;
use crate::machine::{Availability, Status};
use crate::manage::{Eviction, Snapshot};
use crate::runtime::BlockOn;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::token::Token;

/// The blocking [`Semaphore`](crate::Semaphore).
#[derive(Clone)]
pub struct Semaphore {
    inner: AsyncSemaphore,
    thread: Arc<dyn BlockOn>,
}

impl Semaphore {
    pub(super) fn new(inner: AsyncSemaphore, thread: Arc<dyn BlockOn>) -> Self {
        Self { inner, thread }
    }

    /// See [`Semaphore::set_token`](crate::Semaphore::set_token).
    pub fn set_token(&self, token: Token) {
        self.inner.set_token(token);
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> &Prefix {
        self.inner.prefix()
    }

    /// See [`Semaphore::acquire`](crate::Semaphore::acquire).
    ///
    /// # Errors
    /// The same.
    pub fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1)
    }

    /// See [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    ///
    /// # Errors
    /// The same.
    pub fn acquire_many(&self, permits: u32) -> Result<Permit, Error> {
        self.permit(self.inner.acquire_many(permits))
    }

    /// See [`Semaphore::acquire_timeout`](crate::Semaphore::acquire_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Permit, Error> {
        self.acquire_many_timeout(1, timeout)
    }

    /// See [`Semaphore::acquire_many_timeout`](crate::Semaphore::acquire_many_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn acquire_many_timeout(&self, permits: u32, timeout: Duration) -> Result<Permit, Error> {
        let deadline = self.inner.now() + timeout;
        let mut acquiring = Box::pin(self.inner.acquire_many_timeout(permits, timeout));
        let in_time = block_on_for(&*self.thread, timeout, &mut acquiring);
        let acquired = in_time.unwrap_or_else(|| {
            // The driver is late, or nobody runs it.
            let unattended = self.inner.let_time_pass(deadline);
            let late = self.wait(acquiring);
            late.map_err(|error| error.unattended(unattended))
        });
        acquired.map(|inner| self.wrap(inner))
    }

    /// See [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire(&self) -> Result<Result<Permit, Refusal>, Error> {
        self.try_acquire_many(1)
    }

    /// See [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire_many(&self, permits: u32) -> Result<Result<Permit, Refusal>, Error> {
        let permit = self.wait(self.inner.try_acquire_many(permits))?;
        Ok(permit.map(|inner| self.wrap(inner)))
    }

    /// See [`Semaphore::inspect`](crate::Semaphore::inspect).
    ///
    /// # Errors
    /// The same.
    pub fn inspect(&self) -> Result<Snapshot, Error> {
        self.wait(self.inner.inspect())
    }

    /// See [`Semaphore::resize`](crate::Semaphore::resize).
    ///
    /// # Errors
    /// The same.
    pub fn resize(&self, limit: u32) -> Result<(), Error> {
        self.wait(self.inner.resize(limit))
    }

    /// See [`Semaphore::destroy`](crate::Semaphore::destroy).
    ///
    /// # Errors
    /// The same.
    pub fn destroy(&self) -> Result<(), Error> {
        self.wait(self.inner.destroy())
    }

    /// See [`Semaphore::collect`](crate::Semaphore::collect).
    ///
    /// # Errors
    /// The same.
    pub fn collect(&self) -> Result<usize, Error> {
        self.wait(self.inner.collect())
    }

    /// See [`Semaphore::evict`](crate::Semaphore::evict).
    ///
    /// # Errors
    /// The same.
    pub fn evict(&self, session: &SessionId, reason: impl Into<String>) -> Result<Eviction, Error> {
        self.wait(self.inner.evict(session, reason.into()))
    }

    /// See [`Semaphore::verify`](crate::Semaphore::verify).
    ///
    /// # Errors
    /// The same.
    pub fn verify(&self, sequencer: &Sequencer) -> Result<SequencerStatus, Error> {
        self.wait(self.inner.verify(sequencer))
    }

    /// See [`Semaphore::status`](crate::Semaphore::status).
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// See [`Semaphore::available_permits`](crate::Semaphore::available_permits).
    pub fn available_permits(&self) -> Option<Availability> {
        self.inner.available_permits()
    }

    /// See [`Semaphore::close`](crate::Semaphore::close).
    pub fn close(&self) {
        self.inner.close();
    }

    /// See [`Semaphore::is_closed`](crate::Semaphore::is_closed).
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Waits for Consul: see [`Semaphore::shutdown`](crate::Semaphore::shutdown).
    pub fn shutdown(&self) {
        block_on(&*self.thread, self.inner.shutdown());
    }

    /// See [`Semaphore::shutdown_timeout`](crate::Semaphore::shutdown_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let began_at = self.inner.now();
        let done = block_on_for(&*self.thread, timeout, self.inner.shutdown());
        done.ok_or_else(|| self.inner.late(Awaited::Shutdown, timeout))?;
        self.inner.ensure_nothing_left(began_at)
    }

    /// Acquires a slot as [`Self::acquire`] does, runs `work` with it, and returns the work's result at
    /// once. The slot is given back in the background, also if the work panics, and
    /// [`Self::shutdown`] waits for that. Nothing interrupts the work: it should ask
    /// [`Permit::is_held`] between steps.
    ///
    /// # Errors
    /// As [`Self::acquire`], and [`Error::Lost`] if the slot was lost before the work ended.
    pub fn with_permit<T>(&self, work: impl FnOnce(&Permit) -> T) -> Result<T, Error> {
        self.acquire()?.run(work)
    }

    fn permit(
        &self,
        acquired: impl Future<Output = Result<AsyncPermit, Error>> + Send,
    ) -> Result<Permit, Error> {
        self.wait(acquired).map(|inner| self.wrap(inner))
    }

    fn wrap(&self, inner: AsyncPermit) -> Permit {
        Permit {
            inner,
            thread: Arc::clone(&self.thread),
        }
    }

    fn wait<T: Send>(
        &self,
        future: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        block_on(&*self.thread, future).unwrap_or_else(|| Err(self.inner.ended()))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The blocking [`Permit`](crate::Permit). Dropping it does not block while another handle exists.
#[must_use = "a permit that is dropped is released at once"]
pub struct Permit {
    inner: AsyncPermit,
    thread: Arc<dyn BlockOn>,
}

impl Permit {
    /// See [`Permit::permits`](crate::Permit::permits).
    pub fn permits(&self) -> u32 {
        self.inner.permits()
    }

    /// See [`Permit::fencing_token`](crate::Permit::fencing_token).
    pub fn fencing_token(&self) -> FencingToken {
        self.inner.fencing_token()
    }

    /// See [`Permit::sequencers`](crate::Permit::sequencers).
    pub fn sequencers(&self) -> &[Sequencer] {
        self.inner.sequencers()
    }

    /// See [`Permit::is_held`](crate::Permit::is_held). It never blocks: ask it between two steps
    /// of the work.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// See [`Permit::remaining`](crate::Permit::remaining).
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Blocks until it is lost, and returns the reason.
    pub fn lost(&self) -> Lost {
        block_on(&*self.thread, self.inner.lost()).unwrap_or_else(|| self.inner.lost_at_end())
    }

    /// Blocks until it is lost, for at most `timeout`. `None` if it was not lost by then.
    pub fn lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        let lost = block_on_for(&*self.thread, timeout, self.inner.lost());
        // If nobody runs the driver, the clock tells.
        lost.or_else(|| self.inner.lost_by_now())
    }

    /// See [`Permit::lost_signal`](crate::Permit::lost_signal). Other threads can ask it whether
    /// this permit is held.
    pub fn lost_signal(&self) -> LostSignal {
        self.inner.lost_signal()
    }

    /// Runs `work` with this permit, and returns the work's result at once. The permit is given back
    /// in the background, as with a drop. Nothing interrupts the work: it should ask
    /// [`Self::is_held`] between steps.
    ///
    /// # Errors
    /// [`Error::Lost`] if the permit was lost before the work ended.
    pub fn run<T>(self, work: impl FnOnce(&Self) -> T) -> Result<T, Error> {
        let output = work(&self);
        if let Some(lost) = self.inner.lost_by_now() {
            return Err(Error::Lost(lost));
        }
        Ok(output)
    }

    /// Waits for Consul, for at most `timeout`: see
    /// [`Permit::release_timeout`](crate::Permit::release_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn release_timeout(self, timeout: Duration) -> Result<(), Error> {
        let released = self.inner.give_back();
        let in_time = block_on_for(&*self.thread, timeout, released);
        in_time.unwrap_or_else(|| Err(self.inner.late(Awaited::Release, timeout)))
    }

    /// Waits for Consul: see [`Permit::release`](crate::Permit::release).
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<(), Error> {
        block_on(&*self.thread, self.inner.give_back())
            .unwrap_or_else(|| Err(Error::Lost(self.inner.lost_at_end())))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The future's output, if it comes within this time by the calling thread's clock.
fn block_on_for<T: Send>(
    thread: &dyn BlockOn,
    timeout: Duration,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    let mut output = None;
    let future = Box::pin(async { output = Some(future.await) });
    thread.block_on_for(timeout, future);
    output
}

/// The future's output, or `None` if the runtime ended first.
fn block_on<T: Send>(thread: &dyn BlockOn, future: impl Future<Output = T> + Send) -> Option<T> {
    let mut output = None;
    thread.block_on(Box::pin(async { output = Some(future.await) }));
    output
}
