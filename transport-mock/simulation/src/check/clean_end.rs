//! L2: after all have left nothing of them is in Consul: no session, contender key or holder.

use semaphore_core::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::Happening;

pub(super) struct CleanEnd;

impl Check for CleanEnd {
    fn invariant(&self) -> Invariant {
        Invariant::L2
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Left { what } => Err(format!("{what} is left")),
            _ => Ok(()),
        }
    }
}
