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
mod hold;
mod terms;
mod thread;

use core::time::Duration;
use std::sync::Arc;

pub use client::Client;
pub use discovery::{Discovery, Follower};
pub use election::{Election, Leadership};
pub use terms::Terms;

use self::thread::{blocking, same, waits};
use super::lost_signal::LostSignal;
use super::{Permit as AsyncPermit, Semaphore as AsyncSemaphore};
use crate::error::{Error, Lost, Refusal};
use crate::id::{FencingToken, SessionId};
use crate::input::Prefix;
use crate::machine::{Availability, Status};
use crate::manage::{Eviction, Snapshot};
use crate::runtime::BlockOn;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::token::Token;

blocking! {
    /// The blocking [`Semaphore`](crate::Semaphore).
    #[derive(Clone)]
    struct Semaphore(AsyncSemaphore)
}

impl Semaphore {
    same! {
        /// See [`Semaphore::set_token`](crate::Semaphore::set_token).
        fn set_token(&self, token: Token);

        /// The prefix of its keys.
        fn prefix(&self) -> &Prefix;

        /// See [`Semaphore::status`](crate::Semaphore::status).
        fn status(&self) -> Status;

        /// See [`Semaphore::available_permits`](crate::Semaphore::available_permits).
        fn available_permits(&self) -> Option<Availability>;

        /// See [`Semaphore::close`](crate::Semaphore::close).
        fn close(&self);

        /// See [`Semaphore::is_closed`](crate::Semaphore::is_closed).
        fn is_closed(&self) -> bool;
    }

    waits! {
        /// See [`Semaphore::inspect`](crate::Semaphore::inspect).
        ///
        /// # Errors
        /// The same.
        fn inspect(&self) -> Result<Snapshot, Error>;

        /// See [`Semaphore::resize`](crate::Semaphore::resize).
        ///
        /// # Errors
        /// The same.
        fn resize(&self, limit: u32) -> Result<(), Error>;

        /// See [`Semaphore::destroy`](crate::Semaphore::destroy).
        ///
        /// # Errors
        /// The same.
        fn destroy(&self) -> Result<(), Error>;

        /// See [`Semaphore::verify`](crate::Semaphore::verify).
        ///
        /// # Errors
        /// The same.
        fn verify(&self, sequencer: &Sequencer) -> Result<SequencerStatus, Error>;
    }

    /// See [`Semaphore::evict`](crate::Semaphore::evict).
    ///
    /// # Errors
    /// The same.
    pub fn evict(&self, session: &SessionId, reason: impl Into<String>) -> Result<Eviction, Error> {
        let evicted = self.thread.wait(self.inner.evict(session, reason.into()));
        evicted.unwrap_or_else(|| Err(self.inner.ended()))
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
        let (owner, acquired) = (&self.inner.owner, self.inner.acquire_many(permits));
        let acquired = self.thread.obtain(owner, acquired);
        acquired.map(|inner| self.wrap(inner))
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
        let acquired = self.inner.acquire_many_timeout(permits, timeout);
        let acquired = self.thread.obtain_for(&self.inner.owner, timeout, acquired);
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
        let (owner, acquired) = (&self.inner.owner, self.inner.try_acquire_many(permits));
        let acquired = self.thread.obtain(owner, acquired)?;
        Ok(acquired.map(|inner| self.wrap(inner)))
    }

    /// Waits for Consul: see [`Semaphore::shutdown`](crate::Semaphore::shutdown).
    pub fn shutdown(&self) {
        self.thread.wait(self.inner.shutdown());
    }

    /// See [`Semaphore::shutdown_timeout`](crate::Semaphore::shutdown_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let (owner, shutdown) = (&*self.inner.owner, self.inner.shutdown());
        self.thread.shut_down_for(owner, timeout, shutdown)
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

    fn wrap(&self, inner: AsyncPermit) -> Permit {
        Permit::new(inner, Arc::clone(&self.thread))
    }
}

blocking! {
    /// The blocking [`Permit`](crate::Permit). Dropping it does not block while another handle
    /// exists.
    #[must_use = "a permit that is dropped is released at once"]
    struct Permit(AsyncPermit)
}

impl Permit {
    same! {
        /// See [`Permit::permits`](crate::Permit::permits).
        fn permits(&self) -> u32;

        /// See [`Permit::fencing_token`](crate::Permit::fencing_token).
        fn fencing_token(&self) -> FencingToken;

        /// See [`Permit::sequencers`](crate::Permit::sequencers).
        fn sequencers(&self) -> &[Sequencer];

        /// See [`Permit::is_held`](crate::Permit::is_held). It never blocks: ask it between two
        /// steps of the work.
        fn is_held(&self) -> bool;

        /// See [`Permit::remaining`](crate::Permit::remaining).
        fn remaining(&self) -> Duration;

        /// See [`Permit::lost_signal`](crate::Permit::lost_signal). Other threads can ask it
        /// whether this permit is held.
        fn lost_signal(&self) -> LostSignal;
    }

    /// Blocks until it is lost, and returns the reason.
    pub fn lost(&self) -> Lost {
        self.inner.hold.lost_on(&*self.thread)
    }

    /// Blocks until it is lost, for at most `timeout`. `None` if it was not lost by then.
    pub fn lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        self.inner.hold.lost_for(&*self.thread, timeout)
    }

    /// Runs `work` with this permit, and returns the work's result at once. The permit is given back
    /// in the background, as with a drop. Nothing interrupts the work: it should ask
    /// [`Self::is_held`] between steps.
    ///
    /// # Errors
    /// [`Error::Lost`] if the permit was lost before the work ended.
    pub fn run<T>(self, work: impl FnOnce(&Self) -> T) -> Result<T, Error> {
        let output = work(&self);
        if let Some(lost) = self.inner.hold.lost_by_now() {
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
        self.inner.hold.release_for(&*self.thread, timeout)
    }

    /// Waits for Consul: see [`Permit::release`](crate::Permit::release).
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<(), Error> {
        self.inner.hold.release_on(&*self.thread)
    }
}
