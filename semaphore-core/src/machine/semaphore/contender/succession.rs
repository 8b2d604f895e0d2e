//! What passes from one turn to the next.
//!
//! - A *slot* passes on within the record: a contender whose hold is over takes the next local
//!   caller's turn, with a new fencing token and without a new key ([`Contender::pass`]).
//! - A *session* passes from a contender that has left properly to one that enters
//!   ([`Contender::take_session`], [`Spare`]). The key of the last turn has the same name, so the
//!   index of its creation distinguishes it.

use core::time::Duration;

use crate::id::Index;
use crate::machine::process::moment::Moment;
use crate::machine::process::tenancy::session::Session;
use crate::machine::process::tenancy::tenure::Tenure;
use crate::machine::semaphore::contender::phase::{SessionFate, Slot, State};
use crate::machine::semaphore::contender::{Contender, Presence};
use crate::machine::semaphore::key::ContenderKey;
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

/// A session of ours for another turn. Its key of the last turn was created at `former`.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Spare {
    session: Session,
    former: Index,
}

/// How long a slot passes from one local caller to the next while other processes wait. Otherwise
/// each process would hand its slots over after every turn, and in that round of requests nobody
/// holds. With holds of a few milliseconds that is most of the time. A caller that holds for longer
/// than this gives way after each hold.
const SLOT_STAYS: Duration = Duration::from_millis(70);

/// The same for each slot of a semaphore with many, and the limit. Of a hundred slots, each of
/// which stays for 300 ms, one goes to another process every 3 ms.
const STAYS_PER_SLOT: Duration = Duration::from_millis(3);
const LONGEST_STAY: Duration = Duration::from_millis(300);

#[cfg(test)]
impl Spare {
    pub(in crate::machine) fn new(session: Session, former: Index) -> Self {
        Self { session, former }
    }

    pub(in crate::machine) fn session(&self) -> &Session {
        &self.session
    }
}

impl Contender {
    /// A contender with the session of one that has left.
    pub(in crate::machine) fn with_session(
        spare: Spare,
        moment: Moment,
        settings: &Settings,
    ) -> Self {
        tracing::debug!(name: "session-kept", "a kept session serves the next turn");
        let mut contender = Self {
            session: Tenure::Own(spare.session),
            key: ContenderKey::after(spare.former, settings),
            ..Self::new(settings)
        };
        contender.settle(moment);
        contender
    }

    /// Its session, once nothing else of it is left.
    pub(in crate::machine) fn take_session(&mut self) -> Option<Spare> {
        let is_left = self.is_gone() && self.keeps_session();
        let session = is_left.then(|| self.session.take_own()).flatten()?;
        Some(Spare {
            session,
            former: self.key.last_created(),
        })
    }

    /// Whether the record still names it from the last hold, and the next caller in our queue takes
    /// over.
    pub(in crate::machine) fn is_handing_over(&self) -> bool {
        matches!(
            self.phase.state(),
            State::Waiting(Slot::Passed(_)) | State::Claiming(Slot::Passed(_))
        )
    }

    /// Whether its slot may pass on within the process although others wait, because it has not
    /// been here for long. `slots` is the semaphore's limit.
    pub(in crate::machine) fn has_slot_for_more(&self, now: Instant, slots: u32) -> bool {
        let longest = SLOT_STAYS.max(LONGEST_STAY.min(STAYS_PER_SLOT.saturating_mul(slots)));
        let stay = self.phase.stay();
        stay.is_some_and(|stay| now.saturating_since(stay.since) < longest)
    }

    pub(in crate::machine) fn keeps_session(&self) -> bool {
        self.phase.keeps_session()
    }

    /// Its hold is over, and its slot is for the next caller in our queue.
    pub(in crate::machine) fn pass(&mut self) {
        tracing::debug!(name: "slot-passed", "a slot passes to the next local caller");
        self.session.let_go();
        self.phase.passed_on();
    }

    /// The write that admits it was certainly refused: the record is unchanged.
    pub(in crate::machine) fn claim_refused(&mut self, moment: Moment, base: Index) {
        match self.phase.state() {
            State::Claiming(Slot::Passed(_)) => {
                self.phase.claim_refused();
                self.presence = Presence::Yes(base);
            }
            State::Claiming(Slot::Free) => self.withdrawn(moment),
            _ => {}
        }
    }

    /// Begins the way out properly, so that its session can be kept for another turn.
    pub(in crate::machine) fn leave_orderly(
        &mut self,
        now: Instant,
        moment: Moment,
        settings: &Settings,
    ) {
        // If it is already leaving, that is no longer possible. After a claim, the outcome is
        // unknown.
        let has_slot = matches!(
            self.phase.state(),
            State::Held(..) | State::Waiting(Slot::Passed(_))
        );
        let is_in_order = has_slot || self.is_wanting() && self.presence == Presence::No;
        let session = if is_in_order {
            SessionFate::Kept
        } else {
            self.phase.end_session();
            SessionFate::Ended
        };
        self.leave_with(now, moment, session, settings);
    }
}
