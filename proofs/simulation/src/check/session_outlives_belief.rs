//! S2: no session ends by its TTL while somebody believes to hold something with it.

use std::collections::BTreeSet;

use semaphore_core::sans_io::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::{Belief, Ending, Happening, Who};

#[derive(Default)]
pub(super) struct SessionOutlivesBelief {
    expired: BTreeSet<String>,
}

impl Check for SessionOutlivesBelief {
    fn invariant(&self) -> Invariant {
        Invariant::S2
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::SessionEnded {
                session,
                by: Ending::Ttl,
            } => {
                self.expired.insert(session.clone());
            }
            // A restored snapshot brings it back.
            Happening::SessionBegan { session, .. } => {
                self.expired.remove(session);
            }
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, _: Instant, held: &[&Belief]) -> Verdict {
        if self.expired.is_empty() {
            return Ok(());
        }
        let ours = held.iter().filter(|it| matches!(it.who, Who::Ours(_)));
        for belief in ours {
            if let Some(session) = belief.sessions.iter().find(|it| self.expired.contains(*it)) {
                return Err(format!(
                    "{belief} goes on, and session {session} has ended by its TTL"
                ));
            }
        }
        Ok(())
    }
}
