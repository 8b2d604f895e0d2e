//! The state of a contender. Each change is a transition here, and is in this drawing.
//!
//! ```text
//!              key acquired            a write that admits it goes out           applied
//!  Entering ──────────────────▶ Waiting ──────────────────────────────▶ Claiming ────────▶ Held
//!   ▲  │ │                       │  ▲ ▲                                  ▲ │ │ │            │ │
//!   │  │ └─ a newcomer, which enters and claims in one step ─────────────┘ │ │ │            │ │
//!   │  │                         │  │ └── refused, and the slot passes ────┘ │ │            │ │
//!   │  │                         │  └──── its slot passes to the next caller ┼─┼────────────┘ │
//!   └──┼── the record does not name it ──────────────────────────────────────┘ │              │
//!      ▼                         ▼                                             ▼              ▼
//!  Leaving: out of the record ─▶ key deleted ─▶ session destroyed, or kept for the next turn ─▶ Gone
//! ```

use crate::error::RequestError;
use crate::id::CommandId;
use crate::machine::process::tenancy::departure::Departure;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Phase(State);

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Its session or key does not exist yet.
    Entering,
    /// It is in the queue.
    Waiting(Slot),
    /// A write that admits it is under way, or its answer was lost.
    Claiming(Slot),
    /// It has a slot, for this acquisition.
    Held(CommandId, Stay),
    /// It leaves, until nothing is left.
    Leaving(Leaving),
    /// Nothing of it is left, or nothing more can be done.
    Gone(Leaving),
}

/// Which slot it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A free one.
    Free,
    /// Its own: the record still names it from the last hold, and the next caller in our queue
    /// takes over.
    Passed(Stay),
}

/// How long a slot has been in this process, over all holders in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    /// When it was claimed.
    pub(super) since: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Leaving {
    departure: Departure,
    session: SessionFate,
    /// Why the last write that should remove it from the record failed.
    withdraw_failure: Option<RequestError>,
}

/// What happens to its session when nothing else of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionFate {
    /// It is destroyed, if it is ours alone.
    Ended,
    /// The same, because it did not work: something under its name may be from before.
    Doubted,
    /// It is kept for the next turn.
    Kept,
}

impl Phase {
    pub(super) const fn new() -> Self {
        Self(State::Entering)
    }

    pub(super) fn state(&self) -> &State {
        &self.0
    }

    /// The acquisition that has its slot.
    pub(super) fn held_for(&self) -> Option<CommandId> {
        match self.0 {
            State::Held(acquire, _) => Some(acquire),
            _ => None,
        }
    }

    pub(super) fn leaving(&self) -> Option<&Leaving> {
        match &self.0 {
            State::Leaving(leaving) => Some(leaving),
            _ => None,
        }
    }

    fn leaving_mut(&mut self) -> Option<&mut Leaving> {
        match &mut self.0 {
            State::Leaving(leaving) => Some(leaving),
            _ => None,
        }
    }

    fn leaving_or_gone(&self) -> Option<&Leaving> {
        match &self.0 {
            State::Leaving(leaving) | State::Gone(leaving) => Some(leaving),
            _ => None,
        }
    }

    /// Why it could not leave properly, if it could not.
    pub(super) fn leave_failure(&self) -> Option<&RequestError> {
        self.leaving_or_gone()?.departure.failure()
    }

    /// Whether its session is kept for the next turn, as far as is known.
    pub(super) fn keeps_session(&self) -> bool {
        let leaving = self.leaving_or_gone();
        leaving.is_some_and(|it| it.session == SessionFate::Kept)
    }

    /// Its key is acquired.
    pub(super) fn entered(&mut self) {
        if matches!(self.0, State::Entering) {
            self.0 = State::Waiting(Slot::Free);
        }
    }

    /// A write that admits it is sent.
    pub(super) fn claimed(&mut self) {
        self.0 = match self.0 {
            State::Waiting(slot) | State::Claiming(slot) => State::Claiming(slot),
            // A newcomer.
            _ => State::Claiming(Slot::Free),
        };
    }

    /// That write was certainly refused: a slot that passes on is still its own.
    pub(super) fn claim_refused(&mut self) {
        if let State::Claiming(slot @ Slot::Passed(_)) = self.0 {
            self.0 = State::Waiting(slot);
        }
    }

    /// The record does not name it, and no write under way can change that.
    pub(super) fn withdrawn(&mut self) {
        match &mut self.0 {
            State::Claiming(_) => self.0 = State::Entering,
            State::Waiting(slot) => *slot = Slot::Free,
            State::Leaving(leaving) => leaving.withdraw_failure = None,
            State::Entering | State::Held(..) | State::Gone(_) => {}
        }
    }

    /// The record names it, and its slot belongs to this acquisition.
    pub(super) fn granted(&mut self, now: Instant, acquire: CommandId) {
        let stay = match self.0 {
            State::Claiming(Slot::Passed(stay)) => stay,
            _ => Stay { since: now },
        };
        self.0 = State::Held(acquire, stay);
    }

    /// How long its slot has been here.
    pub(super) fn stay(&self) -> Option<Stay> {
        match self.0 {
            State::Held(_, stay)
            | State::Waiting(Slot::Passed(stay))
            | State::Claiming(Slot::Passed(stay)) => Some(stay),
            _ => None,
        }
    }

    /// Its hold is over, and its slot is for the next caller in our queue.
    pub(super) fn passed_on(&mut self) {
        if let State::Held(_, stay) = self.0 {
            self.0 = State::Waiting(Slot::Passed(stay));
        }
    }

    /// It begins the way out. Returns false if it already has.
    pub(super) fn left(&mut self, departure: Departure, session: SessionFate) -> bool {
        if self.leaving_or_gone().is_some() {
            return false;
        }
        self.0 = State::Leaving(Leaving {
            departure,
            session,
            withdraw_failure: None,
        });
        true
    }

    /// Its session is not kept for the next turn: something that is left of it would seem to be
    /// part of that turn.
    pub(super) fn end_session(&mut self) {
        if let State::Leaving(leaving) | State::Gone(leaving) = &mut self.0
            && leaving.session == SessionFate::Kept
        {
            leaving.session = SessionFate::Ended;
        }
    }

    /// Nothing more at this place may use its session.
    pub(super) fn doubts_session(&self) -> bool {
        let leaving = self.leaving_or_gone();
        leaving.is_some_and(|it| it.session == SessionFate::Doubted)
    }

    /// A write that should remove it from the record failed.
    pub(super) fn withdrawal_failed(&mut self, failure: &RequestError) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.withdraw_failure = Some(failure.clone());
        }
    }

    /// Whether it leaves in the background.
    pub(super) fn is_in_background(&self) -> bool {
        let departure = self.leaving().map(Leaving::departure);
        departure.is_some_and(Departure::is_in_background)
    }

    /// A step of the way out is left out, for this reason. An earlier reason stays.
    pub(super) fn skipped(&mut self, failure: RequestError) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.departure.skipped(failure);
        }
    }

    /// It takes longer, for this reason. An earlier reason stays.
    pub(super) fn held_up(&mut self, failure: RequestError) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.departure.held_up(failure);
        }
    }

    /// Nothing of it is left, or nothing more can be done.
    pub(super) fn ended(&mut self) {
        if let State::Leaving(leaving) = &self.0 {
            self.0 = State::Gone(leaving.clone());
        }
    }
}

impl Leaving {
    pub(super) fn departure(&self) -> &Departure {
        &self.departure
    }

    pub(super) fn withdraw_failure(&self) -> Option<&RequestError> {
        self.withdraw_failure.as_ref()
    }
}
