//! The async leadership.

use core::fmt;
use core::time::Duration;

use super::hold::Hold;
use super::lost_signal::LostSignal;
use crate::error::{Awaited, Error, Lost};
use crate::id::FencingToken;
use crate::input::Value;
use crate::machine::Candidate;
use crate::sequencer::Sequencer;

/// The leadership that a campaign has won.
///
/// It is advisory. A leader must watch [`Self::lost`] or ask [`Self::is_leader`] before it acts. An
/// administrator can take the leadership away, and so does a silence of Consul that is as long as
/// the lease. Dropping it resigns in the background, and never blocks while another handle exists.
#[must_use = "a leadership that is dropped is given back at once"]
pub struct Leadership {
    pub(super) hold: Hold<Candidate>,
}

impl Leadership {
    pub(super) fn new(hold: Hold<Candidate>) -> Self {
        Self { hold }
    }

    /// A number higher than that of any earlier term. Send it to the resource with every operation,
    /// so that the resource can refuse a former leader.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.grant().token
    }

    /// The number of this term: how often the key was acquired (`LockIndex`). It is for people and
    /// logs: it starts again when the key is deleted, while [`Self::fencing_token`] keeps growing.
    pub fn term(&self) -> u64 {
        self.sequencer().lock_index
    }

    /// Proof of this leadership for everybody who can read the key in Consul: see [`Sequencer`].
    pub fn sequencer(&self) -> &Sequencer {
        &self.hold.grant().sequencer
    }

    /// Whether it leads now. It only asks the clock, so it is right after any pause of the process.
    pub fn is_leader(&self) -> bool {
        self.hold.is_held()
    }

    /// How long the leader may believe that it leads, unless a renewal succeeds before: the time
    /// that is left to stop. Zero if it does not lead. Like [`Self::is_leader`] it only asks the
    /// clock.
    ///
    /// A renewal is sent after each sixteenth to fifteenth of the TTL, so this shrinks and grows
    /// again. If it is much shorter, Consul does not answer. To be told of the end, await
    /// [`Self::lost`].
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Waits until it is lost, and returns the reason. Then stop acting as the leader. It may be
    /// awaited any number of times, from several tasks. After a suspend of the machine it may be
    /// late, since the timers of runtimes stood still; [`Self::is_leader`] is right at once.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().await
    }

    /// Tells spawned work when it no longer leads. It may be cloned and sent elsewhere, and does
    /// not keep the leadership.
    pub fn lost_signal(&self) -> LostSignal {
        self.hold.lost_signal()
    }

    /// Changes the value of the key, and waits for Consul until the key shows it. It writes only with
    /// `acquire`, as Consul's guide demands, and one change after the other. The next leadership of
    /// this handle begins with the value that was set last, even if the key did not show it before
    /// the loss, unless Consul refused it. While Consul does not answer, this waits until the
    /// leadership is lost: see [`Self::set_value_timeout`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a value that is too large. [`Error::Request`] if Consul refuses
    /// it permanently; the leadership continues. [`Error::Lost`] if the leadership is lost; the key
    /// may then show the value for the rest of the term. [`Error::Closed`] if the runtime has
    /// ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the change to the background.
    pub async fn set_value(&self, value: impl Into<Vec<u8>> + Send) -> Result<(), Error> {
        let value = Value::new(value)?;
        self.hold
            .change(|candidate, now, campaign| candidate.set_value(now, campaign, &value))
            .await
    }

    /// Like [`Self::set_value`], but waits for Consul for at most `timeout`. The change then continues in the
    /// background.
    ///
    /// # Errors
    /// As [`Self::set_value`], and [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// As [`Self::set_value`].
    pub async fn set_value_timeout(
        &self,
        value: impl Into<Vec<u8>> + Send,
        timeout: Duration,
    ) -> Result<(), Error> {
        let owner = &self.hold.owner;
        owner
            .within(Awaited::Change, timeout, self.set_value(value))
            .await?
    }

    /// Steps down, and waits for Consul until only the key and its value are left there. The
    /// leadership ends at once, [`Self::lost`] returns [`Lost::SteppedDown`], and the next leader may
    /// follow at once. While Consul does not answer, this takes up to twice the TTL: see
    /// [`Self::resign_timeout`], or drop the leadership.
    ///
    /// It may be called again, also by several tasks at once: all wait for the same end. If nothing
    /// is left, there is nothing to wait for.
    ///
    /// # Errors
    /// [`Error::Lost`] at once if it was lost before; cleaning up goes on in the background.
    /// [`Error::Request`] if cleaning up failed permanently, or for so long that the TTL has cleaned up; [`Error::Closed`] if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the resignation to the background.
    pub async fn resign(&self) -> Result<(), Error> {
        self.hold.release().await
    }

    /// Like [`Self::resign`], but waits for Consul for at most `timeout`. It no longer leads then; the rest
    /// continues in the background, while the runtime lives.
    ///
    /// # Errors
    /// As [`Self::resign`], and [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// As [`Self::resign`].
    pub async fn resign_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.hold.release_timeout(timeout).await
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("term", &self.term())
            .field("fencing_token", &self.fencing_token())
            .finish_non_exhaustive()
    }
}
