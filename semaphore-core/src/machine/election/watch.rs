//! The watch of the key: by a poll, or by the process for all of its machines
//! (`process::reader::checks`).
//!
//! The process may look at the key for a leader whose value is shown, and for a candidate while
//! another one leads. Such a check only says that the key is as it was, or that it is not. Then the
//! candidate reads it.

use crate::machine::election::settings::ElectionSettings;
use crate::machine::process::reader::budget::{Budget, READ_BURST, READ_INTERVAL};
use crate::machine::process::reader::check::{Check, Reads, Stance};
use crate::machine::process::reader::poller::Poller;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct KeyWatch {
    /// The cluster's leader confirms each answer.
    pub(super) poller: Poller,
    /// Who looks at the key for a leader.
    leading: Reads,
    /// Who looks at it for a candidate.
    waiting: Reads,
}

impl KeyWatch {
    pub(super) fn new(settings: &ElectionSettings) -> Self {
        let budget = Budget::new(READ_INTERVAL, READ_BURST);
        Self {
            poller: Poller::new(budget, settings.session.retry_cap()),
            leading: Reads::at_first(&settings.session),
            waiting: Reads::at_first(&settings.session),
        }
    }

    /// Who looks at the key for a leader from now on.
    pub(super) fn for_leader(&mut self, reads: Reads) {
        self.leading = reads;
    }

    /// Who looks at it for a candidate from now on.
    pub(super) fn for_candidate(&mut self, reads: Reads) {
        self.waiting = reads;
    }

    /// When the next poll is due, if this is what may be checked instead.
    pub(super) fn due(&self, instead: Option<&Check>) -> Option<Instant> {
        let reads = instead.map_or(Reads::Own, |check| match check.stance {
            Stance::Holds => self.leading,
            Stance::Waits { .. } => self.waiting,
        });
        self.poller.timeout().filter(|_| reads == Reads::Own)
    }
}
