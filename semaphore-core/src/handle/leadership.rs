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

/// The leadership that a campaign has led to.
///
/// It is advisory: a leader must watch [`Self::lost`] or ask [`Self::is_leader`] before acting,
/// since Consul's administrators, or silence between us and Consul for as long as the lease, take
/// it away. Dropping it resigns in the background, and never blocks while another handle is left.
#[must_use = "a leadership that is dropped is given back at once"]
pub struct Leadership {
    hold: Hold<Candidate>,
}

impl Leadership {
    pub(super) fn new(hold: Hold<Candidate>) -> Self {
        Self { hold }
    }

    /// A number higher than that of any term before it. Hand it to the resource with every
    /// operation, so that the resource can refuse a leader of the past.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.grant().token
    }

    /// Which term this is: how often the key was acquired, `LockIndex`. For people and logs: it
    /// starts again when the key is deleted, where [`Self::fencing_token`] goes on.
    pub fn term(&self) -> u64 {
        self.sequencer().lock_index
    }

    /// Proof of this leadership, for anyone who can read the key in Consul: see [`Sequencer`].
    pub fn sequencer(&self) -> &Sequencer {
        &self.hold.grant().sequencer
    }

    /// Whether it leads now. Asks the clock and nobody else, so it is right after any pause of the
    /// process.
    pub fn is_leader(&self) -> bool {
        self.hold.is_held()
    }

    /// How long belief lasts from now on unless a renewal succeeds before: how much time there is to stop.
    /// Zero when it does not lead. Like [`Self::is_leader`] it asks the clock and nobody else.
    ///
    /// A renewal is sent after each sixteenth to twelfth of the TTL, so that it shrinks and grows again; much less than that
    /// means that Consul does not answer. On a clock of yours the end is that clock's `now() + remaining()`; to be
    /// told of it, await [`Self::lost`].
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Waits until it is lost, and says why. Stop acting as the leader then. May be awaited any number
    /// of times, from several tasks. After a suspension of the machine it may come late, since the
    /// timers of runtimes stood still: [`Self::is_leader`] does not.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().await
    }

    /// Why it is lost, if it is by now, even if nobody has told yet.
    pub(super) fn lost_by_now(&self) -> Option<Lost> {
        self.hold.lost_by_now()
    }

    /// What tells spawned work that it leads no more: it may be cloned and sent elsewhere, and keeps nothing held.
    pub fn lost_signal(&self) -> LostSignal {
        self.hold.lost_signal()
    }

    /// Changes what the key shows, and waits until it does. It is written through `acquire` only, as
    /// the guide demands; several changes are written one after the other. The next leadership of this
    /// handle begins with the value that was set last, also where it was lost before the key showed it, but not where Consul
    /// refused it. While Consul does not answer this waits until the leadership is lost: see [`Self::set_value_timeout`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a value that is too large, [`Error::Request`] where Consul refuses
    /// it for good (the leadership goes on), [`Error::Lost`] when the leadership was or is lost: the
    /// key may show the value for the rest of the term then; [`Error::Closed`] when the runtime has
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

    /// Like [`Self::set_value`], and waits for `timeout` at most. The change is not taken back then: it goes on in the
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
        let value = Value::new(value)?;
        let set =
            |candidate: &mut Candidate, now, campaign| candidate.set_value(now, campaign, &value);
        self.hold.change_timeout(timeout, set).await
    }

    /// Steps down, and waits until nothing of the leadership but the key and its value is left in
    /// Consul. Belief ends at once, [`Self::lost`] says [`Lost::SteppedDown`], and the next leader may follow at once.
    ///
    /// It may be repeated, also by several tasks at once: all wait for the same end. When nothing is left any more there is
    /// nothing to wait for.
    ///
    /// # Errors
    /// [`Error::Lost`] when it had been lost before; [`Error::Request`] when the cleaning up failed
    /// for good, or for so long that the TTL has done it; [`Error::Closed`] when the runtime has
    /// ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the resignation to the background.
    pub async fn resign(&self) -> Result<(), Error> {
        self.hold.release().await
    }

    /// Like [`Self::resign`], and waits for `timeout` at most. It does not lead any more then; the rest goes on in the
    /// background, as long as the runtime lives.
    ///
    /// # Errors
    /// As [`Self::resign`], and [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// As [`Self::resign`].
    pub async fn resign_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.hold.release_timeout(timeout).await
    }

    /// The error for what came too late for the calling thread.
    pub(super) fn late(&self, what: Awaited, timeout: Duration) -> Error {
        self.hold.late(what, timeout)
    }

    /// Why it is lost where nobody is left who could tell.
    pub(super) fn lost_at_end(&self) -> Lost {
        self.hold.lost_at_end()
    }

    /// The error of what the end of the runtime has cut off.
    pub(super) fn ended(&self) -> Error {
        self.hold.ended()
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
