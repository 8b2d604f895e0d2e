//! L1: in quiet, every waiter gets in within a bounded time.

use semaphore_core::sans_io::Instant;

use super::{Check, Counts, Invariant, Verdict};
use crate::history::{Belief, Happening};

#[derive(Default)]
pub(super) struct EverybodyGetsIn {
    waiting: usize,
    until: Option<Instant>,
    counts: Counts,
}

impl Check for EverybodyGetsIn {
    fn invariant(&self) -> Invariant {
        Invariant::L1
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("everybody gets in", self.counts)
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Round { users, within } => {
                self.late(at)?;
                self.waiting = *users;
                self.counts.armed += u64::try_from(*users).unwrap_or(u64::MAX);
                self.until = Some(at + *within);
            }
            Happening::GotIn { .. } => {
                self.waiting = self.waiting.saturating_sub(1);
                self.counts.decided += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, at: Instant, _: &[&Belief]) -> Verdict {
        self.late(at)
    }
}

impl EverybodyGetsIn {
    fn late(&self, at: Instant) -> Verdict {
        if self.waiting > 0 && self.until.is_some_and(|until| at >= until) {
            return Err(format!("{} users still wait, in quiet", self.waiting));
        }
        Ok(())
    }
}
