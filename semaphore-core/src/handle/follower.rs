//! The changes of an election's leader, as a stream.

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use futures_util::Stream;

use super::followed::{Followed, ListenerNo};
use crate::error::Error;
use crate::input::LockKey;
use crate::leader::LeaderStatus;
use crate::machine::{LeaderEvent, Told};
use crate::subject::Subject;
use crate::time::Instant;

/// Follows an election's leader. [`Discovery::follow`](crate::Discovery::follow) and
/// [`Election::leaders`](crate::Election::leaders) make it.
///
/// It asks Consul only while it is [awaited](Self::next). No task runs, except the driver of a
/// [`Client`](crate::Client) whose followers are checked together. If several changes come
/// between two calls, it shows the last one. It is also a [`Stream`] of the same items, which ends
/// with the runtime.
///
/// The followers of one [`Discovery`](crate::Discovery), of its clones, and of one
/// [`Election`](crate::Election) share one read: a thousand followers cost as much as one. A clone
/// continues after what this one was told.
///
/// Dropping the last of them drops the poll under way. An agent counts that connection until the
/// poll would have ended, some five seconds later. It allows a client 200 connections by default.
#[must_use = "a follower does nothing unless it is awaited"]
pub struct Follower {
    key: LockKey,
    followed: Arc<Followed>,
    no: ListenerNo,
    told: Told,
    /// The age limit of what it was told: how new it was at least.
    told_of: Option<Instant>,
    /// True if it was told that the runtime has ended. Nothing follows, so that a loop around it
    /// ends, too.
    has_ended: bool,
}

impl Follower {
    pub(super) fn new(key: LockKey, followed: Arc<Followed>, no: ListenerNo) -> Self {
        Self {
            no,
            key,
            followed,
            told: Told::default(),
            told_of: None,
            has_ended: false,
        }
    }

    /// Waits for the next change. The first item is the present leader.
    ///
    /// It continues whatever Consul answers. A transient failure is reported once, as
    /// [`LeaderEvent::Interrupted`]. A refusal by Consul, or a key that is not an election's, is
    /// reported once, as an error. The next success is [`LeaderEvent::Resumed`]. Only the end of the
    /// runtime ends it: the last item is [`Error::Closed`], and then it is `None` for ever.
    ///
    /// # Errors
    /// [`Error::NotAnElection`], a refused [`Error::Request`]. It keeps trying. [`Error::Closed`] if
    /// the runtime has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost: the poll under way is kept for the next call.
    pub async fn next(&mut self) -> Option<Result<LeaderEvent, Error>> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    /// The last item of this follower, without waiting. `None` before the first item, and after the
    /// error that the key is no longer an election's.
    pub fn current(&self) -> Option<&LeaderStatus> {
        self.told.status()
    }

    /// How old its knowledge may be: the time since it sent the request whose answer last confirmed
    /// it. `None` before the first item.
    ///
    /// It only asks the clock, so it also grows while Consul is silent. While the follower is
    /// [awaited](Self::next) and not [interrupted](Self::is_interrupted), it stays below
    /// [`max_age`](crate::Builder::max_age), 15 s by default.
    pub fn age(&self) -> Option<Duration> {
        let since = self.followed.confirmed_at(&self.told).or(self.told_of)?;
        Some(self.followed.now().saturating_since(since))
    }

    /// Whether its knowledge may be outdated: at the last try Consul did not answer or refused, or
    /// the key was not an election's.
    pub fn is_interrupted(&self) -> bool {
        self.told.is_in_trouble()
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LeaderEvent, Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let change = self.followed.poll_next(self.no, &mut self.told, cx);
        self.has_ended = matches!(change, Poll::Ready(Err(Error::Closed { .. })));
        if change.is_ready()
            && let Some(confirmed_at) = self.followed.confirmed_at(&self.told)
        {
            self.told_of = Some(confirmed_at);
        }
        let change = change.map_err(|error| error.or_about(&self.subject()));
        change.map(Some)
    }

    /// Returns true if there is no further item.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends it, since nothing runs it any more. The last item.
    pub(super) fn end(&mut self) -> Error {
        self.has_ended = true;
        Error::ended().or_about(&self.subject())
    }

    fn subject(&self) -> Subject {
        Subject::of_election(self.key.as_str(), self.followed.address())
    }
}

impl Clone for Follower {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            followed: Arc::clone(&self.followed),
            no: self.followed.listen_too(),
            told: self.told.clone(),
            told_of: self.told_of,
            has_ended: self.has_ended,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.followed.leave(self.no);
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
            .field("key", &self.key)
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}
