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
use crate::machine::semaphore::contender::{Contender, Phase, Presence};
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
        let is_left = self.phase == Phase::Gone && self.keeps_session;
        is_left.then(|| Spare {
            session: core::mem::replace(&mut self.session, Session::ended()),
            former: self.create_index().unwrap_or_default(),
        })
    }

    /// Whether the record still names it from the hold before, and the next of our queue takes over.
    pub(in crate::machine) fn is_handing_over(&self) -> bool {
        self.hands_over && self.is_wanting()
    }

    pub(in crate::machine) fn keeps_session(&self) -> bool {
        self.keeps_session
    }

    /// Its hold is over, and its slot is for the next of our queue.
    pub(in crate::machine) fn pass(&mut self) {
        tracing::debug!(name: "slot-passed", "a slot passes to the next local caller");
        self.session.let_go();
        self.phase = Phase::Waiting;
        self.hands_over = true;
    }

    /// The write that admits it was refused for certain: the record names it no more than before.
    pub(in crate::machine) fn claim_refused(
        &mut self,
        moment: Moment,
        base: Index,
        settings: &Settings,
    ) {
        if self.phase != Phase::Claiming {
            return;
        }
        if self.hands_over {
            self.phase = Phase::Waiting;
            self.presence = Presence::Yes(base);
        } else {
            self.withdrawn(moment, settings);
        }
    }

    /// Starts on the way out in good order, so that its session serves another turn.
    pub(in crate::machine) fn leave_orderly(
        &mut self,
        now: Instant,
        moment: Moment,
        settings: &Settings,
    ) {
        self.keeps_session = matches!(self.phase, Phase::Held(_));
        self.leave(now, moment, settings);
    }
}
