//! Finding and following a leader, for threads that block.

use core::time::Duration;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::thread::{blocking, same, waits};
use crate::api::SessionDetails;
use crate::error::Error;
use crate::handle::{Discovery as AsyncDiscovery, Follower as AsyncFollower};
use crate::input::LockKey;
use crate::leader::{Leader, LeaderStatus};
use crate::machine::LeaderEvent;
use crate::runtime::BlockOn;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::token::Token;

blocking! {
    /// The blocking [`Discovery`](crate::Discovery).
    #[derive(Clone)]
    struct Discovery(AsyncDiscovery)
}

impl Discovery {
    same! {
        /// See [`Discovery::set_token`](crate::Discovery::set_token).
        fn set_token(&self, token: Token);

        /// See [`Discovery::key`](crate::Discovery::key).
        fn key(&self) -> &LockKey;
    }

    waits! {
        /// See [`Discovery::leader`](crate::Discovery::leader).
        ///
        /// # Errors
        /// The same.
        fn leader(&self) -> Result<Option<Leader>, Error>;

        /// See [`Discovery::status`](crate::Discovery::status).
        ///
        /// # Errors
        /// The same.
        fn status(&self) -> Result<LeaderStatus, Error>;

        /// See [`Discovery::holder`](crate::Discovery::holder).
        ///
        /// # Errors
        /// The same.
        fn holder(&self, leader: &Leader) -> Result<Option<SessionDetails>, Error>;

        /// See [`Discovery::verify`](crate::Discovery::verify).
        ///
        /// # Errors
        /// The same.
        fn verify(&self, sequencer: &Sequencer) -> Result<SequencerStatus, Error>;
    }

    /// See [`Discovery::follow`](crate::Discovery::follow).
    pub fn follow(&self) -> Follower {
        Follower::new(self.inner.follow(), Arc::clone(&self.thread))
    }
}

blocking! {
    /// The blocking [`Follower`](crate::Follower): an iterator with the items of
    /// [`Follower::next`](crate::Follower::next). Clones share one read.
    #[derive(Clone)]
    #[must_use = "a follower does nothing unless it is asked"]
    struct Follower(AsyncFollower)
}

impl Follower {
    same! {
        /// See [`Follower::current`](crate::Follower::current).
        fn current(&self) -> Option<&LeaderStatus>;

        /// See [`Follower::age`](crate::Follower::age).
        fn age(&self) -> Option<Duration>;

        /// See [`Follower::is_interrupted`](crate::Follower::is_interrupted).
        fn is_interrupted(&self) -> bool;

        /// Whether there is no further item, because the runtime has ended.
        fn has_ended(&self) -> bool;

        /// See [`Follower::key`](crate::Follower::key).
        fn key(&self) -> &LockKey;
    }

    /// Like [`Iterator::next`], for at most `timeout`. Also `None` if nothing changed by then. The
    /// poll under way is kept for the next call.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Result<LeaderEvent, Error>> {
        let (inner, thread) = (&mut self.inner, &self.thread);
        let changed = thread.wait(async {
            let next = Box::pin(inner.next());
            match select(next, thread.sleep(timeout)).await {
                Either::Left((item, _)) => item,
                Either::Right(_) => None,
            }
        });
        changed.unwrap_or_else(|| self.cut_off())
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
        let changed = self.thread.wait(self.inner.next());
        changed.unwrap_or_else(|| self.cut_off())
    }
}
