//! The changes of an election's leader, as a stream.

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use futures_util::Stream;

use crate::driver::{Answered, exchange};
use crate::error::Error;
use crate::input::LockKey;
use crate::leader::LeaderStatus;
use crate::machine::{Follow, LeaderEvent};
use crate::runtime::{BoxFuture, Runtime};
use crate::subject::Subject;
use crate::transport::Transport;

/// Follows an election's leader. Made by [`Discovery::follow`](crate::Discovery::follow).
///
/// Nothing runs in the background: it asks Consul while it is [awaited](Self::next), and only then.
/// Of what changes between two calls, the last is seen. It is also a [`Stream`] of the same items.
///
/// Dropping it drops the poll that is under way. An agent goes on counting that connection until the
/// poll would have ended, 16 s later at most, and allows a client 200 by default: keep one follower
/// rather than making many.
#[must_use = "a follower does nothing unless it is awaited"]
pub struct Follower {
    follow: Follow,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
    /// What it waits for: an answer, or the time of the next request.
    waiting: Option<BoxFuture<'static, Option<Answered>>>,
}

impl Follower {
    pub(super) fn new(
        follow: Follow,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            follow,
            transport,
            runtime,
            waiting: None,
        }
    }

    /// Waits for the next change; the first is the leader of the present. Failures that pass are told as
    /// [`LeaderEvent::Interrupted`] and tried again. None after an error.
    ///
    /// # Errors
    /// What no retry mends, as its last item: [`Error::NotAnElection`], a refused [`Error::Request`].
    ///
    /// # Cancel safety
    /// Nothing is lost: the poll that is under way is kept, and the next call goes on with it.
    pub async fn next(&mut self) -> Option<Result<LeaderEvent, Error>> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    /// What was learned last, for which nobody waits; none before the first item.
    pub fn current(&self) -> Option<&LeaderStatus> {
        self.follow.current()
    }

    /// How old what was learned last may be: the time since the request was sent whose answer has told or confirmed it. None
    /// before the first item.
    ///
    /// It asks the clock and nobody else, so that it grows also where Consul is silent. While nothing changes Consul answers
    /// each 15 s a request that it was sent 15 s before, so that up to 32 s are usual for a follower that is
    /// [awaited](Self::next).
    pub fn age(&self) -> Option<Duration> {
        let now = self.runtime.now();
        Some(now.saturating_since(self.follow.known_at()?))
    }

    /// Whether what was learned last may be outdated, since Consul could not be asked when it was
    /// tried last.
    pub fn is_interrupted(&self) -> bool {
        self.follow.is_interrupted()
    }

    /// Whether there is no further item.
    pub fn has_ended(&self) -> bool {
        self.follow.has_ended()
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        self.follow.key()
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LeaderEvent, Error>>> {
        loop {
            if let Some(by) = self.runtime.ended()
                && !self.follow.has_ended()
            {
                self.waiting = None;
                self.follow.end(by.into());
            }
            if let Some(event) = self.follow.poll_event() {
                let key = self.follow.key().as_str();
                let subject = Subject::of_election(key, self.transport.address());
                return Poll::Ready(Some(event.map_err(|error| error.or_about(&subject))));
            }
            if self.waiting.is_none() {
                self.waiting = self.wait();
            }
            let Some(waiting) = &mut self.waiting else {
                return Poll::Ready(None);
            };
            let answered = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            if let Some((id, result)) = answered {
                let now = self.runtime.now();
                self.follow.handle_response(now, id, &result);
            }
        }
    }

    /// What the machine wants next, an answer or that time passes; none when it has ended.
    fn wait(&mut self) -> Option<BoxFuture<'static, Option<Answered>>> {
        let now = self.runtime.now();
        if let Some(transmit) = self.follow.poll_transmit(now) {
            let exchange = exchange(&self.transport, transmit);
            return Some(Box::pin(async move { Some(exchange.await) }));
        }
        let wait = self.follow.poll_timeout()?.saturating_since(now);
        let runtime = Arc::clone(&self.runtime);
        Some(Box::pin(async move {
            runtime.sleep(wait).await;
            None
        }))
    }
}

impl Stream for Follower {
    type Item = Result<LeaderEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_change(cx)
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("key", self.key())
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}
