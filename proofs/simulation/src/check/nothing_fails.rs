//! L4: an acquisition, or another command, only fails for a permanent reason.

use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Invariant, Verdict};
use crate::history::Happening;

pub(super) struct NothingFails(pub(super) Bounds);

impl Check for NothingFails {
    fn invariant(&self) -> Invariant {
        Invariant::L4
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Failed { host, error } if !self.0.expects_refusals => {
                Err(format!("what node-{host} asked for failed: {error}"))
            }
            _ => Ok(()),
        }
    }
}
