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

/// Follows an election's leader. Made by [`Discovery::follow`](crate::Discovery::follow) and
/// [`Election::leaders`](crate::Election::leaders).
///
/// Nothing runs in the background: it asks Consul while it is [awaited](Self::next), and only then.
/// If several changes come between two calls, it shows the last one. It is also a [`Stream`] of the same items, which does not
/// end.
///
/// Those of one [`Discovery`](crate::Discovery), of its clones, and of one [`Election`](crate::Election) share one read: a thousand
/// of them cost what one costs. A clone goes on from what this one was told.
///
/// Dropping the last of them drops the poll that is under way. An agent goes on counting that connection until the
/// poll would have ended, some five seconds later, and allows a client 200 by default.
#[must_use = "a follower does nothing unless it is awaited"]
pub struct Follower {
    key: LockKey,
    followed: Arc<Followed>,
    no: ListenerNo,
    told: Told,
    /// How new what it was told was at least when it was told.
    told_of: Option<Instant>,
}

impl Follower {
    pub(super) fn new(key: LockKey, followed: Arc<Followed>) -> Self {
        Self {
            no: followed.listen(),
            key,
            followed,
            told: Told::default(),
            told_of: None,
        }
    }

    /// Waits for the next change; the first is the leader of the present.
    ///
    /// It goes on whatever happens, and is never `None`. A failure that passes is reported once, as
    /// [`LeaderEvent::Interrupted`]. A refusal by Consul, or a key that is not an election's, is reported once, as an error.
    /// The next success is [`LeaderEvent::Resumed`].
    ///
    /// # Errors
    /// [`Error::NotAnElection`], a refused [`Error::Request`]. It goes on trying.
    ///
    /// # Cancel safety
    /// Nothing is lost: the poll that is under way is kept, and the next call goes on with it.
    pub async fn next(&mut self) -> Option<Result<LeaderEvent, Error>> {
        Some(poll_fn(|cx| self.poll_change(cx)).await)
    }

    /// The last item that this follower returned, without waiting. None before the first item, and after an error that says
    /// that the key is not an election's any more.
    pub fn current(&self) -> Option<&LeaderStatus> {
        self.told.status()
    }

    /// How old its knowledge may be: the time since it sent the request whose answer last confirmed it. None before the first
    /// item.
    ///
    /// It asks the clock and nobody else, so that it grows also where Consul is silent. While the follower is
    /// [awaited](Self::next) and not [interrupted](Self::is_interrupted), it stays below 15 s, or what
    /// [`max_age`](crate::Builder::max_age) says.
    pub fn age(&self) -> Option<Duration> {
        let since = self.followed.confirmed_at(&self.told).or(self.told_of)?;
        Some(self.followed.now().saturating_since(since))
    }

    /// Whether its knowledge may be outdated: at the last try Consul did not answer, or refused, or the key was not an
    /// election's.
    pub fn is_interrupted(&self) -> bool {
        self.told.is_in_trouble()
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Result<LeaderEvent, Error>> {
        let change = self.followed.poll_next(self.no, &mut self.told, cx);
        if change.is_ready()
            && let Some(confirmed_at) = self.followed.confirmed_at(&self.told)
        {
            self.told_of = Some(confirmed_at);
        }
        change.map_err(|error| error.or_about(&self.subject()))
    }

    /// The error of what the end of the runtime has cut off.
    pub(super) fn ended(&self) -> Error {
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
            no: self.followed.listen(),
            told: self.told.clone(),
            told_of: self.told_of,
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
        self.poll_change(cx).map(Some)
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
