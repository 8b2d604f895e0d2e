//! The same handles for threads that block: the same names, the same meanings.
//!
//! [`Semaphore::builder`], [`Election::builder`] and [`Discovery::builder`] begin them, and take the same options as
//! those of the async handles. None of these may be called on a thread that runs async tasks.
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

pub use client::Client;
pub use discovery::{Discovery, Follower};

use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::sync::Arc;

use futures_util::future::{Either, select};

pub use election::{Election, Leadership};

use super::{Permit as AsyncPermit, Semaphore as AsyncSemaphore};
use crate::error::{Error, Lost, Refusal};
use crate::id::FencingToken;
use crate::input::Prefix;
use crate::machine::{Availability, Status};
use crate::manage::Snapshot;
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

    /// The prefix it lives under.
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
        self.permit(self.inner.acquire_many_timeout(permits, timeout))
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

    /// See [`Semaphore::shutdown`](crate::Semaphore::shutdown).
    pub fn shutdown(&self) {
        block_on(&*self.thread, self.inner.shutdown());
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
        block_on(&*self.thread, future).unwrap_or(Err(Error::Closed))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The blocking [`Permit`](crate::Permit). Dropping it never blocks while another handle is left.
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

    /// See [`Permit::is_held`](crate::Permit::is_held). This never blocks: ask it between two steps
    /// of the work.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// See [`Permit::remaining`](crate::Permit::remaining).
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Blocks until it is lost, and says why.
    pub fn lost(&self) -> Lost {
        block_on(&*self.thread, self.inner.lost()).unwrap_or(Lost::RuntimeEnded)
    }

    /// Blocks until it is lost, for `timeout` at most; none when it was not lost by then.
    pub fn lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        lost_within(&*self.thread, self.inner.lost(), timeout)
    }

    /// See [`Permit::release`](crate::Permit::release).
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<(), Error> {
        block_on(&*self.thread, self.inner.release()).unwrap_or(Err(Error::Closed))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// What was lost within `timeout`.
fn lost_within(
    thread: &dyn BlockOn,
    lost: impl Future<Output = Lost> + Send,
    timeout: Duration,
) -> Option<Lost> {
    block_on(thread, async {
        match select(Box::pin(lost), thread.sleep(timeout)).await {
            Either::Left((lost, _)) => Some(lost),
            Either::Right(_) => None,
        }
    })
    .unwrap_or(Some(Lost::RuntimeEnded))
}

/// What the future returns; none if the runtime ended before it did.
fn block_on<T: Send>(thread: &dyn BlockOn, future: impl Future<Output = T> + Send) -> Option<T> {
    let mut output = None;
    thread.block_on(Box::pin(async { output = Some(future.await) }));
    output
}
