//! What passes from one turn to the next.
//!
//! - A *slot* passes within the record: a contender whose hold is over takes the next local caller's turn,
//!   with a new fencing token and without a new key ([`Contender::pass`]).
//! - A *session* passes from a contender that has left in good order to one that enters
//!   ([`Contender::take_session`], [`Spare`]). The key of the turn before has the same name, so that it is
//!   told by the index of its creation.

use crate::id::Index;
use crate::machine::process::moment::Moment;
use crate::machine::process::tenancy::session::Session;
use crate::machine::semaphore::contender::phase::{SessionFate, Slot, State};
use crate::machine::semaphore::contender::{Contender, Presence};
use crate::machine::semaphore::key::ContenderKey;
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

/// A session of ours for another turn, whose key for the turn before was created at `former`.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Spare {
    session: Session,
    former: Index,
}

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
    /// One that contends with the session of another that has left.
    pub(in crate::machine) fn with_session(
        spare: Spare,
        moment: Moment,
        settings: &Settings,
        rng: &mut fastrand::Rng,
    ) -> Self {
        tracing::debug!(name: "session-kept", "a kept session serves the next turn");
        let mut contender = Self {
            session: spare.session,
            key: ContenderKey::after(spare.former, settings, rng),
            ..Self::new(settings, rng)
        };
        contender.settle(moment, settings);
        contender
    }

    /// Its session, once nothing else is left of it.
    pub(in crate::machine) fn take_session(&mut self) -> Option<Spare> {
        let is_left = self.is_gone() && self.keeps_session();
        is_left.then(|| Spare {
            session: core::mem::replace(&mut self.session, Session::ended()),
            former: self.create_index().unwrap_or_default(),
        })
    }

    /// Whether the record still names it from the hold before, and the next of our queue takes over.
    pub(in crate::machine) fn is_handing_over(&self) -> bool {
        matches!(
            self.phase.state(),
            State::Waiting(Slot::Passed) | State::Claiming(Slot::Passed)
        )
    }

    pub(in crate::machine) fn keeps_session(&self) -> bool {
        self.phase.keeps_session()
    }

    /// Its hold is over, and its slot is for the next of our queue.
    pub(in crate::machine) fn pass(&mut self) {
        tracing::debug!(name: "slot-passed", "a slot passes to the next local caller");
        self.session.let_go();
        self.phase.passed_on();
    }

    /// The write that admits it was refused for certain: the record names it no more than before.
    pub(in crate::machine) fn claim_refused(
        &mut self,
        moment: Moment,
        base: Index,
        settings: &Settings,
    ) {
        match self.phase.state() {
            State::Claiming(Slot::Passed) => {
                self.phase.claim_refused();
                self.presence = Presence::Yes(base);
            }
            State::Claiming(Slot::Free) => self.withdrawn(moment, settings),
            _ => {}
        }
    }

    /// Starts on the way out in good order, so that its session serves another turn.
    pub(in crate::machine) fn leave_orderly(
        &mut self,
        now: Instant,
        moment: Moment,
        settings: &Settings,
    ) {
        // Whoever is on its way already has lost that order.
        let session = if self.is_held() {
            SessionFate::Kept
        } else {
            self.phase.end_session();
            SessionFate::Ended
        };
        self.leave_with(now, moment, session, settings);
    }
}
