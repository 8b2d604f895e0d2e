//! The state of a candidacy. Each change is a transition here, and is in this drawing.
//!
//! ```text
//!                 key free, lease valid: acquire          the key shows our session
//!  Campaigning ────────────────────────────▶ (unresolved) ─────────────────────────▶ Leading
//!     │   ▲             refused: wait ◀──────────┘  │ it shows another: watch on       │  │ lost,
//!     │   └─────────────────────────────────────────┘                                  │  │ resigned
//!     └────────────── leave() ──────────────┬─────────────────────────────────────────┴──┘
//!                                           ▼
//!  Campaigning ◀── handed on ── Leaving: key released ─▶ session destroyed, or given back ─▶ Gone
//!         ▲                       ▲ │                                                        ▲
//!         │                       │ │ on a session that lives on something may come late     │
//!         │                       │ ▼                                                        │
//!         └── somebody campaigns ── Settling ───────── it can't any more ────────────────────┘
//! ```
//! Campaigning and unresolved are one state here: an attempt is a write under way, or an unknown
//! outcome that a read has to show.

use crate::election_key::TermIndexes;
use crate::error::RequestError;
use crate::machine::election::candidacy::departure::Departure;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Phase(State);

#[derive(Clone, Debug)]
pub(super) enum State {
    Campaigning,
    Leading(TermIndexes),
    /// It leaves, until nothing is left.
    Leaving(Leaving),
    /// Nothing of it is left except a given-up write that may come late, on a session that lives
    /// on. It watches the key until then.
    Settling(Leaving),
    /// Nothing of it is left, or nothing more can be done.
    Gone(Leaving),
}

#[derive(Clone, Debug)]
pub(super) struct Leaving {
    departure: Departure,
    way: Way,
    /// Until when it rests after a failure, if nobody waits for it.
    rests_until: Option<Instant>,
}

/// How it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine::election) enum Way {
    /// It gives the key back, and keeps the session for the next campaign.
    HandOn,
    /// It gives the key back, and ends the session.
    End,
}

impl Phase {
    pub(super) const fn new() -> Self {
        Self(State::Campaigning)
    }

    pub(super) fn state(&self) -> &State {
        &self.0
    }

    pub(super) fn departure(&self) -> Option<&Departure> {
        match &self.0 {
            State::Leaving(leaving) => Some(&leaving.departure),
            _ => None,
        }
    }

    fn leaving_mut(&mut self) -> Option<&mut Leaving> {
        match &mut self.0 {
            State::Leaving(leaving) => Some(leaving),
            _ => None,
        }
    }

    /// Why it could not leave properly, if it could not.
    pub(super) fn leave_failure(&self) -> Option<&RequestError> {
        match &self.0 {
            State::Leaving(leaving) | State::Settling(leaving) | State::Gone(leaving) => {
                leaving.departure.failure()
            }
            State::Campaigning | State::Leading(_) => None,
        }
    }

    /// Whether it leaves in the background: the one that resigned was told why it takes longer.
    pub(super) fn is_left_behind(&self) -> bool {
        self.departure().is_some_and(Departure::is_in_background)
    }

    /// Until when nothing is sent, because nobody here waits.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        match &self.0 {
            State::Leaving(leaving) if self.is_left_behind() => leaving.rests_until,
            _ => None,
        }
    }

    /// Somebody campaigns again.
    pub(super) fn taken_up(&mut self) {
        if matches!(self.0, State::Settling(_)) {
            self.0 = State::Campaigning;
        }
    }

    /// The key shows our session, and the lease is valid.
    pub(super) fn elected(&mut self, term: TermIndexes) {
        self.0 = State::Leading(term);
    }

    /// It begins the way out. Returns false if it already has.
    pub(super) fn left(&mut self, departure: Departure, way: Way) -> bool {
        if matches!(
            self.0,
            State::Leaving(_) | State::Settling(_) | State::Gone(_)
        ) {
            return false;
        }
        self.0 = State::Leaving(Leaving {
            departure,
            way,
            rests_until: None,
        });
        true
    }

    /// Whether it wants to give the key back and keep the session.
    pub(super) fn hands_on(&self) -> bool {
        matches!(&self.0, State::Leaving(leaving) if leaving.way == Way::HandOn)
    }

    /// That has failed, or is impossible.
    pub(super) fn cannot_hand_on(&mut self) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.way = Way::End;
        }
    }

    /// The key was given back, and the session can campaign again.
    pub(super) fn handed_on(&mut self) {
        if self.hands_on() {
            self.0 = State::Campaigning;
        }
    }

    /// It takes longer, for this reason. An earlier reason stays.
    pub(super) fn held_up(&mut self, failure: RequestError) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.departure.held_up(failure);
        }
    }

    /// A step of the way out is refused, for this reason, which replaces an earlier one.
    pub(super) fn refused(&mut self, failure: RequestError) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.departure.refused(failure);
        }
    }

    /// A request of the way out failed.
    pub(super) fn rest(&mut self, until: Instant) {
        if let Some(leaving) = self.leaving_mut() {
            leaving.rests_until = Some(until);
        }
    }

    /// Nothing is left except what may come late.
    pub(super) fn settles(&mut self) {
        if let State::Leaving(leaving) = &self.0 {
            self.0 = State::Settling(leaving.clone());
        }
    }

    pub(super) fn is_settling(&self) -> bool {
        matches!(self.0, State::Settling(_))
    }

    /// It came late, or a read has to show whether it did.
    pub(super) fn comes_back(&mut self) {
        if let State::Settling(leaving) = &self.0 {
            self.0 = State::Leaving(leaving.clone());
        }
    }

    /// Nothing of it is left, or nothing more can be done.
    pub(super) fn ended(&mut self) {
        if let State::Leaving(leaving) | State::Settling(leaving) = &self.0 {
            self.0 = State::Gone(leaving.clone());
        }
    }
}
