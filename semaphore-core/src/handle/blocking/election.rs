//! The blocking election and leadership.

use core::time::Duration;
use std::sync::Arc;

use super::thread::{blocking, same, waits};
use super::{Discovery, Follower};
use crate::error::{Awaited, Error, Lost, Refusal};
use crate::handle::lost_signal::LostSignal;
use crate::handle::{Election as AsyncElection, Leadership as AsyncLeadership};
use crate::id::FencingToken;
use crate::input::LockKey;
use crate::machine::Status;
use crate::runtime::BlockOn;
use crate::sequencer::Sequencer;
use crate::token::Token;

blocking! {
    /// The blocking [`Election`](crate::Election).
    #[derive(Clone)]
    struct Election(AsyncElection)
}

impl Election {
    same! {
        /// See [`Election::set_token`](crate::Election::set_token).
        fn set_token(&self, token: Token);

        /// The election's key.
        fn key(&self) -> &LockKey;

        /// See [`Election::close`](crate::Election::close).
        fn close(&self);

        /// See [`Election::status`](crate::Election::status).
        fn status(&self) -> Status;

        /// See [`Election::is_closed`](crate::Election::is_closed).
        fn is_closed(&self) -> bool;
    }

    waits! {
        /// See [`Election::step_down`](crate::Election::step_down).
        ///
        /// # Errors
        /// The same.
        fn step_down(&self) -> Result<(), Error>;
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
        let (owner, campaign) = (&self.inner.owner, self.inner.campaign());
        let led = self.thread.obtain(owner, campaign);
        led.map(|inner| self.wrap(inner))
    }

    /// See [`Election::campaign_timeout`](crate::Election::campaign_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn campaign_timeout(&self, timeout: Duration) -> Result<Leadership, Error> {
        let (owner, campaign) = (&self.inner.owner, self.inner.campaign_timeout(timeout));
        let led = self.thread.obtain_for(owner, timeout, campaign);
        led.map(|inner| self.wrap(inner))
    }

    /// See [`Election::try_campaign`](crate::Election::try_campaign).
    ///
    /// # Errors
    /// The same.
    pub fn try_campaign(&self) -> Result<Result<Leadership, Refusal>, Error> {
        let (owner, campaign) = (&self.inner.owner, self.inner.try_campaign());
        let led = self.thread.obtain(owner, campaign)?;
        Ok(led.map(|inner| self.wrap(inner)))
    }

    /// See [`Election::shutdown`](crate::Election::shutdown).
    pub fn shutdown(&self) {
        self.thread.wait(self.inner.shutdown());
    }

    /// See [`Election::shutdown_timeout`](crate::Election::shutdown_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let (owner, shutdown) = (&*self.inner.owner, self.inner.shutdown());
        self.thread.shut_down_for(owner, timeout, shutdown)
    }

    fn wrap(&self, inner: AsyncLeadership) -> Leadership {
        Leadership::new(inner, Arc::clone(&self.thread))
    }
}

blocking! {
    /// The blocking [`Leadership`](crate::Leadership). Dropping it never blocks.
    #[must_use = "a leadership that is dropped is given back at once"]
    struct Leadership(AsyncLeadership)
}

impl Leadership {
    same! {
        /// See [`Leadership::fencing_token`](crate::Leadership::fencing_token).
        fn fencing_token(&self) -> FencingToken;

        /// See [`Leadership::term`](crate::Leadership::term).
        fn term(&self) -> u64;

        /// See [`Leadership::sequencer`](crate::Leadership::sequencer).
        fn sequencer(&self) -> &Sequencer;

        /// See [`Leadership::is_leader`](crate::Leadership::is_leader). It never blocks: ask it
        /// between two steps of the work.
        fn is_leader(&self) -> bool;

        /// See [`Leadership::remaining`](crate::Leadership::remaining).
        fn remaining(&self) -> Duration;

        /// See [`Leadership::lost_signal`](crate::Leadership::lost_signal). Other threads can ask
        /// it whether this leads.
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

    /// See [`Leadership::set_value`](crate::Leadership::set_value).
    ///
    /// # Errors
    /// The same.
    pub fn set_value(&self, value: impl Into<Vec<u8>> + Send) -> Result<(), Error> {
        let set = self.thread.wait(self.inner.set_value(value));
        set.unwrap_or_else(|| Err(self.inner.hold.owner.ended()))
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
        let set = self.thread.wait_for(timeout, self.inner.set_value(value));
        set.unwrap_or_else(|| Err(self.inner.hold.owner.late(Awaited::Change, timeout)))
    }

    /// Waits for Consul: see [`Leadership::resign`](crate::Leadership::resign).
    ///
    /// # Errors
    /// The same.
    pub fn resign(&self) -> Result<(), Error> {
        self.inner.hold.release_on(&*self.thread)
    }

    /// Waits for Consul, for at most `timeout`: see
    /// [`Leadership::resign_timeout`](crate::Leadership::resign_timeout).
    ///
    /// # Errors
    /// The same.
    pub fn resign_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.inner.hold.release_for(&*self.thread, timeout)
    }
}
