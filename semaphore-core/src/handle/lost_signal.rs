//! What spawned work watches: whether the permit or leadership is still held.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::FutureExt as _;
use futures_util::future::Shared as SharedFuture;

use super::shared::Shared;
use crate::error::Lost;
use crate::id::CommandId;
use crate::machine::Machine;

/// Tells work that runs elsewhere when a permit or a leadership is no longer held: lost, given
/// back, or dropped.
///
/// It may be cloned and sent to other tasks and threads, and does not keep the slot. As a future it ends with the reason. The
/// reason is [`Lost::SteppedDown`] for a slot that was given back or dropped.
///
/// ```
/// use semaphore_core::{Error, Semaphore};
/// # use transport_mock::MockConsul;
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
/// # world.run(async {
/// let semaphore = Semaphore::builder("service/db", 3).connect(transport)?;
/// let permit = semaphore.acquire().await?;
/// let signal = permit.lost_signal(); // for a task that is spawned
/// assert!(!signal.is_lost());
/// permit.release().await?;
/// println!("{}", signal.await);
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct LostSignal {
    lost: SharedFuture<oneshot::Receiver<Lost>>,
    belief: Arc<dyn Belief>,
    pub(super) command: CommandId,
}

/// Who can tell whether something is held.
pub(super) trait Belief: Send + Sync {
    /// Only asks the clock.
    fn is_held(&self, command: CommandId) -> bool;
    /// Returns true if this process was forked off from the one that holds it.
    fn is_forked(&self) -> bool;
    /// Why it is lost, if the driver that could tell is gone.
    fn lost_at_end(&self) -> Lost;
}

impl<M: Machine> Belief for Shared<M> {
    fn is_held(&self, command: CommandId) -> bool {
        if self.is_forked() {
            return false;
        }
        let now = self.runtime().now();
        self.with(|state| !state.has_ended() && state.machine.is_held(now, command))
    }

    fn is_forked(&self) -> bool {
        self.is_forked()
    }

    fn lost_at_end(&self) -> Lost {
        self.lost_at_end()
    }
}

impl LostSignal {
    pub(super) fn new(
        lost: oneshot::Receiver<Lost>,
        belief: Arc<dyn Belief>,
        command: CommandId,
    ) -> Self {
        Self {
            lost: lost.shared(),
            belief,
            command,
        }
    }

    /// Whether it is no longer held. It only asks the clock, so it is right after any pause of the
    /// process.
    pub fn is_lost(&self) -> bool {
        !self.belief.is_held(self.command)
    }
}

/// Why it is no longer held.
impl Future for LostSignal {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Lost> {
        if self.belief.is_forked() {
            return Poll::Ready(self.belief.lost_at_end());
        }
        let told = self.lost.poll_unpin(cx);
        told.map(|told| match told {
            Ok(Lost::RuntimeEnded { .. }) | Err(_) => self.belief.lost_at_end(),
            Ok(lost) => lost,
        })
    }
}

impl fmt::Debug for LostSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostSignal")
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}
