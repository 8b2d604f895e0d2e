//! L1: in quiet, every waiter gets in within a bounded time.

use semaphore_core::sans_io::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::{Belief, Happening};

#[derive(Default)]
pub(super) struct EverybodyGetsIn {
    waiting: usize,
    until: Option<Instant>,
}

impl Check for EverybodyGetsIn {
    fn invariant(&self) -> Invariant {
        Invariant::L1
    }

    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::Round { users, within } => {
                self.late(at)?;
                self.waiting = *users;
                self.until = Some(at + *within);
            }
            Happening::GotIn { .. } => self.waiting = self.waiting.saturating_sub(1),
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
