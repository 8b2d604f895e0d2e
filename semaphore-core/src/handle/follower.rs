//! The changes of an election's leader, as a stream.

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use futures_util::Stream;

use crate::error::Error;
use crate::http::Response;
use crate::id::RequestId;
use crate::input::LockKey;
use crate::leader::LeaderStatus;
use crate::machine::{Follow, LeaderEvent, Transmit};
use crate::runtime::{BoxFuture, Runtime};
use crate::time::Instant;
use crate::transport::{Transport, TransportError};

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
    waiting: Option<BoxFuture<'static, Woken>>,
}

enum Woken {
    Answered(RequestId, Result<Response, TransportError>),
    Due,
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
            if let Some(event) = self.follow.poll_event() {
                return Poll::Ready(Some(event));
            }
            if self.waiting.is_none() {
                self.waiting = self.wait();
            }
            let Some(waiting) = &mut self.waiting else {
                return Poll::Ready(None);
            };
            let woken = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            if let Woken::Answered(id, result) = woken {
                let now = self.runtime.now();
                self.follow.handle_response(now, id, &result);
            }
        }
    }

    /// What the machine wants next; none when it has ended.
    fn wait(&mut self) -> Option<BoxFuture<'static, Woken>> {
        let now = self.runtime.now();
        match self.follow.poll_transmit(now) {
            Some(transmit) => Some(self.send(transmit)),
            None => self.follow.poll_timeout().map(|due| self.sleep(now, due)),
        }
    }

    fn send(&self, transmit: Transmit) -> BoxFuture<'static, Woken> {
        let Transmit { id, request } = transmit;
        tracing::trace!(?id, ?request, "sending");
        let transport = Arc::clone(&self.transport);
        Box::pin(async move {
            let result = transport.send(request).await;
            let status = result.as_ref().map(Response::status);
            tracing::trace!(?id, ?status, "answered");
            Woken::Answered(id, result)
        })
    }

    fn sleep(&self, now: Instant, due: Instant) -> BoxFuture<'static, Woken> {
        let runtime = Arc::clone(&self.runtime);
        Box::pin(async move {
            runtime.sleep(due.saturating_since(now)).await;
            Woken::Due
        })
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
