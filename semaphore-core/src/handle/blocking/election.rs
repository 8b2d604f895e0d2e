//! The blocking election and leadership.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::{Discovery, Follower, block_on, block_on_for};
use crate::error::{Awaited, Error, Lost, Refusal};
use crate::handle::lost_signal::LostSignal;
use crate::handle::{Election as AsyncElection, Leadership as AsyncLeadership};
use crate::id::FencingToken;
use crate::input::LockKey;
use crate::machine::Status;
use crate::runtime::BlockOn;
use crate::sequencer::Sequencer;
use crate::token::Token;

/// The blocking [`Election`](crate::Election).
#[derive(Clone)]
pub struct Election {
    inner: AsyncElection,
    thread: Arc<dyn BlockOn>,
}

impl Election {
    pub(in crate::handle) fn new(inner: AsyncElection, thread: Arc<dyn BlockOn>) -> Self {
        Self { inner, thread }
    }

    /// See [`Election::set_token`](crate::Election::set_token).
    pub fn set_token(&self, token: Token) {
        self.inner.set_token(token);
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        self.inner.key()
    }

    /// See [`Election::discovery`](crate::Election::discovery).
    pub fn discovery(&self) -> Discovery {
        Discovery::new(self.inner.discovery(), Arc::clone(&self.thread))
    }

    /// See [`Election::leaders`](crate::Election::leaders).
    pub fn leaders(&self) -> Follower {
        self.discovery().follow()
    }

    /// See [`Election::campaign`](crate::Election::campaign).
    ///
    /// # Errors
    /// The same.
    pub fn campaign(&self) -> Result<Leadership, Error> {
        let inner = block_on(&*self.thread, self.inner.campaign())
            .unwrap_or_else(|| Err(self.inner.ended()))?;
        Ok(self.wrap(inner))
    }

    /// See [`Election::campaign_timeout`](crate::Election::campaign_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn campaign_timeout(&self, timeout: Duration) -> Result<Leadership, Error> {
        let deadline = self.inner.now() + timeout;
        let mut campaign = Box::pin(self.inner.campaign_timeout(timeout));
        let in_time = block_on_for(&*self.thread, timeout, &mut campaign);
        let led = in_time.unwrap_or_else(|| {
            // The driver is late, or nobody runs it.
            let unattended = self.inner.let_time_pass(deadline);
            let late = block_on(&*self.thread, campaign).unwrap_or_else(|| Err(self.inner.ended()));
            late.map_err(|error| error.unattended(unattended))
        });
        led.map(|inner| self.wrap(inner))
    }

    /// See [`Election::try_campaign`](crate::Election::try_campaign).
    ///
    /// # Errors
    /// The same.
    pub fn try_campaign(&self) -> Result<Result<Leadership, Refusal>, Error> {
        let campaign = self.inner.try_campaign();
        let inner = block_on(&*self.thread, campaign).unwrap_or_else(|| Err(self.inner.ended()))?;
        Ok(inner.map(|inner| self.wrap(inner)))
    }

    pub(super) fn inner(&self) -> &AsyncElection {
        &self.inner
    }

    pub(super) fn thread(&self) -> &dyn BlockOn {
        &*self.thread
    }

    /// See [`Election::close`](crate::Election::close).
    pub fn close(&self) {
        self.inner.close();
    }

    /// See [`Election::status`](crate::Election::status).
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// See [`Election::is_closed`](crate::Election::is_closed).
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// See [`Election::shutdown`](crate::Election::shutdown).
    pub fn shutdown(&self) {
        block_on(&*self.thread, self.inner.shutdown());
    }

    /// See [`Election::shutdown_timeout`](crate::Election::shutdown_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let began_at = self.inner.now();
        let done = block_on_for(&*self.thread, timeout, self.inner.shutdown());
        done.ok_or_else(|| self.inner.late(Awaited::Shutdown, timeout))?;
        self.inner.ensure_nothing_left(began_at)
    }

    /// See [`Election::step_down`](crate::Election::step_down).
    ///
    /// # Errors
    /// The same.
    pub fn step_down(&self) -> Result<(), Error> {
        block_on(&*self.thread, self.inner.step_down()).unwrap_or_else(|| Err(self.inner.ended()))
    }

    pub(super) fn wrap(&self, inner: AsyncLeadership) -> Leadership {
        Leadership {
            inner,
            thread: Arc::clone(&self.thread),
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The blocking [`Leadership`](crate::Leadership). Dropping it never blocks.
#[must_use = "a leadership that is dropped is given back at once"]
pub struct Leadership {
    inner: AsyncLeadership,
    thread: Arc<dyn BlockOn>,
}

impl Leadership {
    /// See [`Leadership::fencing_token`](crate::Leadership::fencing_token).
    pub fn fencing_token(&self) -> FencingToken {
        self.inner.fencing_token()
    }

    /// See [`Leadership::term`](crate::Leadership::term).
    pub fn term(&self) -> u64 {
        self.inner.term()
    }

    /// See [`Leadership::sequencer`](crate::Leadership::sequencer).
    pub fn sequencer(&self) -> &Sequencer {
        self.inner.sequencer()
    }

    /// See [`Leadership::is_leader`](crate::Leadership::is_leader). It never blocks: ask it between
    /// two steps of the work.
    pub fn is_leader(&self) -> bool {
        self.inner.is_leader()
    }

    /// See [`Leadership::remaining`](crate::Leadership::remaining).
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

    /// See [`Leadership::lost_signal`](crate::Leadership::lost_signal). Other threads can ask it
    /// whether this leads.
    pub fn lost_signal(&self) -> LostSignal {
        self.inner.lost_signal()
    }

    /// See [`Leadership::set_value`](crate::Leadership::set_value).
    ///
    /// # Errors
    /// The same.
    pub fn set_value(&self, value: impl Into<Vec<u8>> + Send) -> Result<(), Error> {
        block_on(&*self.thread, self.inner.set_value(value))
            .unwrap_or_else(|| Err(self.inner.ended()))
    }

    /// See [`Leadership::set_value_timeout`](crate::Leadership::set_value_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn set_value_timeout(
        &self,
        value: impl Into<Vec<u8>> + Send,
        timeout: Duration,
    ) -> Result<(), Error> {
        let set = self.inner.set_value(value);
        let in_time = block_on_for(&*self.thread, timeout, set);
        in_time.unwrap_or_else(|| Err(self.inner.late(Awaited::Change, timeout)))
    }

    /// Steps down as a drop does, without waiting.
    pub(super) fn resign_behind(&self) {
        self.inner.resign_behind();
    }

    /// Waits for Consul: see [`Leadership::resign`](crate::Leadership::resign).
    ///
    /// # Errors
    /// The same.
    pub fn resign(&self) -> Result<(), Error> {
        block_on(&*self.thread, self.inner.resign())
            .unwrap_or_else(|| Err(Error::Lost(self.inner.lost_at_end())))
    }

    /// Waits for Consul, for at most `timeout`: see
    /// [`Leadership::resign_timeout`](crate::Leadership::resign_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn resign_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let in_time = block_on_for(&*self.thread, timeout, self.inner.resign());
        in_time.unwrap_or_else(|| Err(self.inner.late(Awaited::Release, timeout)))
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
