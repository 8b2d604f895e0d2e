//! S3: no write of ours removes a holder whose session lives and has its contender key, unless the
//! writer made that session; and nobody of ours ends a session of somebody else's.

use std::collections::BTreeMap;

use semaphore_core::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::{Ending, Happening, Who};

#[derive(Default)]
pub(super) struct NoLiveHolderRemoved {
    owners: BTreeMap<String, Who>,
}

impl Check for NoLiveHolderRemoved {
    fn invariant(&self) -> Invariant {
        Invariant::S3
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::SessionBegan { session, owner } => {
                self.owners.insert(session.clone(), *owner);
            }
            Happening::SessionEnded {
                session,
                by: Ending::Destroyed(by @ Who::Ours(_)),
            } => {
                let owner = self.owners.get(session);
                if owner.is_some_and(|owner| owner != by) {
                    return Err(format!("{by} destroyed session {session} of somebody else"));
                }
            }
            Happening::RecordChanged {
                by: by @ Who::Ours(_),
                removed,
                ..
            } => {
                let mut removed = removed.iter();
                let wrong = removed.find(|it| it.is_alive && it.owner != Some(*by));
                if let Some(it) = wrong {
                    return Err(format!(
                        "{by} removed the holder {}, which lives",
                        it.session
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
