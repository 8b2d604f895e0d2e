//! The async permit.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::FutureExt as _;
use futures_util::future::Shared as SharedFuture;

use super::semaphore::Owner;
use super::shared::Granted;
use crate::error::{Error, Lost};
use crate::id::{AcquireId, FencingToken};
use crate::machine::Grant;
use crate::sequencer::Sequencer;
use crate::time::Instant;

/// One or more slots that are held.
///
/// The semaphore is advisory: whoever holds a permit must watch [`Self::lost`] or ask
/// [`Self::is_held`] before acting, since Consul's administrators, or silence between us and Consul
/// for as long as the lease, take it away. Dropping it releases in the background and never blocks.
#[must_use = "a permit that is dropped is released at once"]
pub struct Permit {
    owner: Arc<Owner>,
    acquire: AcquireId,
    permits: u32,
    grant: Grant,
    lost: SharedFuture<oneshot::Receiver<Lost>>,
    is_released: bool,
}

impl Permit {
    pub(super) fn new(
        owner: Arc<Owner>,
        acquire: AcquireId,
        permits: u32,
        granted: Granted,
    ) -> Self {
        Self {
            owner,
            acquire,
            permits,
            grant: granted.grant,
            lost: granted.lost.shared(),
            is_released: false,
        }
    }

    /// How many slots it holds.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// A number higher than that of any grant before it on this prefix. Hand it to the resource with
    /// every operation, so that the resource can refuse whoever comes late.
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }

    /// The sequencers of its contender keys, one for each slot, see [`Sequencer`].
    pub fn sequencers(&self) -> &[Sequencer] {
        &self.grant.sequencers
    }

    /// Whether it is held now. Asks the clock and nobody else, so it is right after any pause of the
    /// process.
    pub fn is_held(&self) -> bool {
        let now = self.owner.0.runtime().now();
        self.owner
            .0
            .with(|state| !state.has_ended() && state.participant.is_held(now, self.acquire))
    }

    /// When belief ends unless a renewal succeeds before, on the runtime's clock; none when it has
    /// ended, or for a caller's session without a TTL.
    pub fn deadline(&self) -> Option<Instant> {
        self.owner
            .0
            .with(|state| state.participant.deadline(self.acquire))
    }

    /// How long belief lasts from now on unless a renewal succeeds: how much time there is to stop.
    /// Zero when it is not held; none when it has no end.
    pub fn remaining(&self) -> Option<Duration> {
        if !self.is_held() {
            return Some(Duration::ZERO);
        }
        let now = self.owner.0.runtime().now();
        self.deadline()
            .map(|deadline| deadline.saturating_since(now))
    }

    /// Waits until it is lost, and says why. Stop using the resource then. May be awaited any number
    /// of times, from several tasks. After a suspension of the machine it may come late, since the
    /// timers of runtimes stood still: [`Self::is_held`] does not.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> Lost {
        self.lost.clone().await.unwrap_or(Lost::RuntimeEnded)
    }

    /// Gives the slots back, and waits until nothing of the acquisition is left in Consul. Belief
    /// ends at once.
    ///
    /// # Errors
    /// [`Error::Lost`] when it had been lost before; [`Error::Request`] when the cleaning up failed
    /// for good, or for so long that the TTL has done it (for a session of the caller's: that its own
    /// end has to); [`Error::Closed`] when the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the release to the background.
    pub async fn release(mut self) -> Result<(), Error> {
        self.is_released = true;
        let released = self.owner.0.command(|state, now| {
            let released = state.await_release(self.acquire);
            state.participant.release(now, self.acquire);
            released
        });
        released.await.unwrap_or(Err(Error::Closed))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_released {
            self.owner
                .0
                .command(|state, now| state.forget(now, self.acquire));
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("permits", &self.permits)
            .field("fencing_token", &self.grant.token)
            .finish_non_exhaustive()
    }
}
