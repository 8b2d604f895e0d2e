//! The async permit.

use core::fmt;
use core::time::Duration;

use super::hold::Hold;
use super::lost_signal::LostSignal;
use crate::error::{Error, Lost};
use crate::id::FencingToken;
use crate::machine::Participant;
use crate::sequencer::Sequencer;

/// One or more slots that are held.
///
/// The semaphore is advisory. The holder of a permit must watch [`Self::lost`] or ask
/// [`Self::is_held`] before it acts. An administrator can take the permit away, and so does a
/// silence of Consul that is as long as the lease. Dropping it releases in the background, and
/// never blocks while another handle exists.
#[must_use = "a permit that is dropped is released at once"]
pub struct Permit {
    pub(super) hold: Hold<Participant>,
    permits: u32,
}

impl Permit {
    pub(super) fn new(hold: Hold<Participant>, permits: u32) -> Self {
        Self { hold, permits }
    }

    /// How many slots it holds.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// A number higher than that of any earlier grant on this prefix. Send it to the resource with
    /// every operation, so that the resource can refuse a late holder.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.grant().token
    }

    /// The sequencers of its contender keys, one for each slot, see [`Sequencer`].
    pub fn sequencers(&self) -> &[Sequencer] {
        &self.hold.grant().sequencers
    }

    /// Whether it is held now. It only asks the clock, so it is right after any pause of the process.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// How long the holder may believe that it holds, unless a renewal succeeds before: the time
    /// that is left to stop. Zero if it is not held. Like [`Self::is_held`] it only asks the clock.
    ///
    /// A renewal is sent after each sixteenth to fifteenth of the TTL, so this shrinks and grows
    /// again. If it is much shorter, Consul does not answer. To be told of the end, await
    /// [`Self::lost`].
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Waits until it is lost, and returns the reason. Then stop using the resource. It may be
    /// awaited any number of times, from several tasks. After a suspend of the machine it may be
    /// late, since the timers of runtimes stood still; [`Self::is_held`] is right at once.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().await
    }

    /// Tells spawned work when it is no longer held. It may be cloned and sent elsewhere, and does
    /// not keep the slot.
    pub fn lost_signal(&self) -> LostSignal {
        self.hold.lost_signal()
    }

    /// Gives the slots back, and waits for Consul until nothing of the acquisition is left there. The
    /// permit is not held any more from the call on. While Consul does not answer, this takes up to
    /// twice the TTL: see [`Self::release_timeout`], or drop the permit.
    ///
    /// # Errors
    /// [`Error::Lost`] at once if it was lost before; cleaning up goes on in the background. [`Error::Request`] if cleaning up failed permanently,
    /// or for so long that the TTL has cleaned up; a caller's session cleans up when it ends.
    /// [`Error::Closed`] if the runtime ends meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the release to the background.
    pub async fn release(self) -> Result<(), Error> {
        self.hold.release().await
    }

    /// Like [`Self::release`], but waits for Consul for at most `timeout`. It is not held any more then; the rest
    /// continues in the background, while the runtime lives.
    ///
    /// # Errors
    /// As [`Self::release`], and [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// As [`Self::release`].
    pub async fn release_timeout(self, timeout: Duration) -> Result<(), Error> {
        self.hold.release_timeout(timeout).await
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("permits", &self.permits)
            .field("fencing_token", &self.hold.grant().token)
            .finish_non_exhaustive()
    }
}
