//! What becomes of a campaign that fails: it ends the loop from the beginning, and is waited out later.

use core::time::Duration;

use crate::error::Error;
use crate::time::Instant;

/// What is refused so soon has been wrong from the beginning.
const AT_ONCE: Duration = Duration::from_secs(5);

/// What is refused, and since when it could have been told.
pub(in crate::handle) struct Refusals {
    began_at: Instant,
    has_led: bool,
}

/// What follows from a campaign that failed.
pub(in crate::handle) enum Verdict {
    /// The loop ends so.
    Over(Result<(), Error>),
    /// It goes on after a pause.
    Later,
}

impl Refusals {
    pub(in crate::handle) fn new(now: Instant) -> Self {
        Self {
            began_at: now,
            has_led: false,
        }
    }

    pub(in crate::handle) fn has_led(&mut self) {
        self.has_led = true;
    }

    pub(in crate::handle) fn judge(&self, now: Instant, error: Error) -> Verdict {
        let is_at_once = !self.has_led && now.saturating_since(self.began_at) < AT_ONCE;
        match error {
            Error::Closed { .. } => Verdict::Over(Ok(())),
            error if is_at_once => Verdict::Over(Err(error)),
            error => {
                let error: &dyn core::error::Error = &error;
                tracing::warn!(name: "campaign-refused", error, "a campaign was refused, and follows again");
                Verdict::Later
            }
        }
    }
}
