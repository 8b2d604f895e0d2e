//! Finding and following a leader, for threads that block.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::block_on;
use crate::api::SessionDetails;
use crate::error::Error;
use crate::handle::{Discovery as AsyncDiscovery, Follower as AsyncFollower};
use crate::input::LockKey;
use crate::leader::{Leader, LeaderStatus};
use crate::machine::LeaderEvent;
use crate::runtime::BlockOn;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::token::Token;

/// The blocking [`Discovery`](crate::Discovery).
#[derive(Clone)]
pub struct Discovery {
    inner: AsyncDiscovery,
    thread: Arc<dyn BlockOn>,
}

impl Discovery {
    pub(in crate::handle) fn new(inner: AsyncDiscovery, thread: Arc<dyn BlockOn>) -> Self {
        Self { inner, thread }
    }

    /// See [`Discovery::set_token`](crate::Discovery::set_token).
    pub fn set_token(&self, token: Token) {
        self.inner.set_token(token);
    }

    /// See [`Discovery::key`](crate::Discovery::key).
    pub fn key(&self) -> &LockKey {
        self.inner.key()
    }

    /// See [`Discovery::leader`](crate::Discovery::leader).
    ///
    /// # Errors
    /// The same.
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        block_on(&*self.thread, self.inner.leader()).unwrap_or_else(|| Err(self.inner.ended()))
    }

    /// See [`Discovery::status`](crate::Discovery::status).
    ///
    /// # Errors
    /// The same.
    pub fn status(&self) -> Result<LeaderStatus, Error> {
        block_on(&*self.thread, self.inner.status()).unwrap_or_else(|| Err(self.inner.ended()))
    }

    /// See [`Discovery::holder`](crate::Discovery::holder).
    ///
    /// # Errors
    /// The same.
    pub fn holder(&self, leader: &Leader) -> Result<Option<SessionDetails>, Error> {
        block_on(&*self.thread, self.inner.holder(leader))
            .unwrap_or_else(|| Err(self.inner.ended()))
    }

    /// See [`Discovery::follow`](crate::Discovery::follow).
    pub fn follow(&self) -> Follower {
        Follower {
            inner: self.inner.follow(),
            thread: Arc::clone(&self.thread),
        }
    }

    /// See [`Discovery::verify`](crate::Discovery::verify).
    ///
    /// # Errors
    /// The same.
    pub fn verify(&self, sequencer: &Sequencer) -> Result<SequencerStatus, Error> {
        block_on(&*self.thread, self.inner.verify(sequencer))
            .unwrap_or_else(|| Err(self.inner.ended()))
    }
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The blocking [`Follower`](crate::Follower): an iterator with the items of
/// [`Follower::next`](crate::Follower::next). Clones share one read.
#[derive(Clone)]
#[must_use = "a follower does nothing unless it is asked"]
pub struct Follower {
    inner: AsyncFollower,
    thread: Arc<dyn BlockOn>,
}

impl Follower {
    /// Like [`Iterator::next`], for at most `timeout`. Also `None` if nothing changed by then. The
    /// poll under way is kept for the next call.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Result<LeaderEvent, Error>> {
        let (inner, thread) = (&mut self.inner, &self.thread);
        let changed = block_on(&**thread, async {
            let next = Box::pin(inner.next());
            match select(next, thread.sleep(timeout)).await {
                Either::Left((item, _)) => item,
                Either::Right(_) => None,
            }
        });
        changed.unwrap_or_else(|| self.cut_off())
    }

    /// See [`Follower::current`](crate::Follower::current).
    pub fn current(&self) -> Option<&LeaderStatus> {
        self.inner.current()
    }

    /// See [`Follower::age`](crate::Follower::age).
    pub fn age(&self) -> Option<Duration> {
        self.inner.age()
    }

    /// See [`Follower::is_interrupted`](crate::Follower::is_interrupted).
    pub fn is_interrupted(&self) -> bool {
        self.inner.is_interrupted()
    }

    /// Whether there is no further item, because the runtime has ended.
    pub fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }

    /// See [`Follower::key`](crate::Follower::key).
    pub fn key(&self) -> &LockKey {
        self.inner.key()
    }

    /// The item if the runtime has ended meanwhile: it is told once.
    fn cut_off(&mut self) -> Option<Result<LeaderEvent, Error>> {
        (!self.has_ended()).then(|| Err(self.inner.end()))
    }
}

impl Iterator for Follower {
    type Item = Result<LeaderEvent, Error>;

    /// Blocks until something changes.
    fn next(&mut self) -> Option<Self::Item> {
        let changed = block_on(&*self.thread, self.inner.next());
        changed.unwrap_or_else(|| self.cut_off())
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
