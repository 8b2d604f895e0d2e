//! What a blocking permit and a blocking leadership have in common.

use core::time::Duration;

use crate::error::{Awaited, Error, Lost};
use crate::handle::hold::Hold;
use crate::machine::Machine;
use crate::runtime::BlockOn;

impl<M: Machine<Grant: Sync>> Hold<M> {
    /// Blocks until it is lost.
    pub(super) fn lost_on(&self, thread: &dyn BlockOn) -> Lost {
        thread
            .wait(self.lost())
            .unwrap_or_else(|| self.owner.lost_at_end())
    }

    /// The same, for at most `timeout`.
    pub(super) fn lost_for(&self, thread: &dyn BlockOn, timeout: Duration) -> Option<Lost> {
        let lost = thread.wait_for(timeout, self.lost());
        // If nobody runs the driver, the clock tells.
        lost.or_else(|| self.lost_by_now())
    }

    /// Gives it back, and blocks until the end.
    pub(super) fn release_on(&self, thread: &dyn BlockOn) -> Result<(), Error> {
        let released = thread.wait(self.release());
        released.unwrap_or_else(|| Err(Error::Lost(self.owner.lost_at_end())))
    }

    /// The same, for at most `timeout`.
    pub(super) fn release_for(&self, thread: &dyn BlockOn, timeout: Duration) -> Result<(), Error> {
        let released = thread.wait_for(timeout, self.release());
        released.unwrap_or_else(|| Err(self.owner.late(Awaited::Release, timeout)))
    }
}
