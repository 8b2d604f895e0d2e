//! What a failed campaign means: it ends the loop at the beginning, and delays it later.

use core::time::Duration;

use crate::error::Error;
use crate::time::Instant;

/// A refusal within this time was there from the beginning.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The refusals, and since when they could have been noticed.
pub(in crate::handle) struct Refusals {
    began_at: Instant,
    has_led: bool,
}

/// What follows from a failed campaign.
pub(in crate::handle) enum Verdict {
    /// The loop ends with this result.
    Over(Result<(), Error>),
    /// It continues after a pause.
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
