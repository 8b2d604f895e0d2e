//! The way out of a candidacy, and what holds it up.
//!
//! - *Leaving*: by a session for itself, releasing is repeated until it is answered: it does nothing to a key that is not ours. A key
//!   of ours that has become something else than an election's is left alone, and untied by the end of the session.
//!   By one that is shared the key is untied as it was seen, every byte of it, or read again where that is not known.
//! - *Settling*: by a session that is shared, until an attempt that was given up can't come any more.
//!
//! Sources: Consul's documentation of the KV endpoint (`release` by a session that does not have the key is answered `false` and
//! changes nothing); docs/CONSUL.md, "Limits and timeouts", on writes that were given up.

use super::phase::Way;
use super::seen::Sight;
use super::{Candidacy, Fencing, Names};
use crate::defect::{Defect, is_on};
use crate::election_key::ElectionKey;
use crate::error::RequestError;
use crate::machine::election::settings::ElectionSettings;
use crate::machine::process::tenancy::departure::Departure;
use crate::machine::process::tenancy::loan::Rest;
use crate::machine::process::tenancy::past::Past;
use crate::time::Instant;

impl Candidacy {
    /// Starts on the way out, from wherever it is.
    pub(in crate::machine::election) fn leave(
        &mut self,
        now: Instant,
        way: Way,
        settings: &ElectionSettings,
    ) {
        let is_kept = way == Way::HandOn && self.is_leading();
        let way = if is_kept { Way::HandOn } else { Way::End };
        let departure = Departure::begin(now, &settings.session);
        if !self.phase.left(departure, way) {
            return;
        }
        match way {
            Way::HandOn => self.session.let_go(),
            Way::End => self.session.leave(),
        }
        self.pace.reset();
        self.may_hold &= !is_on(Defect::KeyLeftLocked);
        self.settle(settings);
    }

    /// Does what needs no request: one step of the way out leads to the next.
    pub(super) fn settle(&mut self, settings: &ElectionSettings) {
        let is_on_way = self.is_leaving() || self.is_settling();
        if !is_on_way || self.writing.is_some() || self.session.is_being_created() {
            return;
        }
        if self.session.is_shared() {
            if self.is_detained() {
                return;
            }
        } else if self.must_release() && self.session.id().is_some() {
            return;
        }
        if !self.session.is_ending() {
            let past = self.led.map_or(Past::Nothing, Past::Term);
            self.session.end(past, self.rest_left(), &settings.session);
        }
        if self.session.has_ended() {
            self.phase.ended();
        }
    }

    /// Whether the key may be tied to the session and is to be untied by a write. What has become something
    /// else is not written: it is untied with the end of the session.
    pub(super) fn must_release(&self) -> bool {
        if self.session.is_shared() {
            let is_seen = self.unresolved.is_none() && self.sight == Sight::Current;
            return self.may_hold && is_seen && self.shown_as_own().is_some();
        }
        let is_own = |key: &ElectionKey| key.session.as_ref() == self.session.id();
        let is_something_else = |key: &ElectionKey| is_own(key) && key.foreign_flags().is_some();
        // A write of ours may have come after what was seen.
        let is_left_alone =
            self.unresolved.is_none() && self.shown().is_some_and(is_something_else);
        self.may_hold && !is_left_alone
    }

    /// Whether only a read tells if the key is tied to a session that lives on.
    pub(super) fn must_look(&self) -> bool {
        let is_seen = self.unresolved.is_none() && self.sight == Sight::Current;
        self.session.is_shared() && self.may_hold && !(is_seen && self.present().is_some())
    }

    /// Whether something of it is left, or may come, on a session that lives on.
    pub(super) fn is_detained(&mut self) -> bool {
        if self.session.is_gone() {
            return false;
        }
        if self.must_release() || self.must_look() {
            if self.is_settling() {
                tracing::debug!(name: "late-term", "an attempt that was given up has tied the key late");
            }
            self.phase.comes_back();
            return true;
        }
        let may_come = self.given_up.latest().is_some();
        if may_come {
            self.phase.settles();
            self.session.leave();
            self.session.settles();
        }
        may_come
    }

    /// What it leaves on a session that lives on.
    pub(super) fn rest_left(&self) -> Rest {
        let is_in_order = self.fencing == Fencing::Whole && !self.may_hold;
        match self.names {
            _ if !is_in_order => Rest::Key,
            Names::Spent => Rest::Place,
            Names::Unused => Rest::Nothing,
        }
    }

    /// A step of the way out failed. What is refused may be refused for long: the one that resigned is told at once.
    pub(super) fn leaving_failed(&mut self) {
        let is_held_up = |failure: &&RequestError| {
            matches!(failure, RequestError::RefusedForNow(_)) || failure.is_anothers()
        };
        if let Some(failure) = self.failure.as_ref().filter(is_held_up) {
            self.phase.held_up(failure.clone());
        }
    }

    /// The same of one that it needs to do the next, if it leaves.
    pub(super) fn cannot_leave(&mut self, error: &RequestError) {
        let is_for_good = error.is_permanent() && !error.is_anothers();
        if is_for_good {
            self.phase.refused(error.clone());
        } else {
            self.leaving_failed();
        }
    }

    /// Whether it would keep out for long who campaigns next: Consul has refused what it leaves by, and not for now; or it waits for
    /// what may come late, and can't lead again itself.
    pub(in crate::machine::election) fn keeps_others_out(&self) -> bool {
        let is_for_good = |it: &RequestError| it.is_permanent() && !it.is_anothers();
        self.phase.leave_failure().is_some_and(is_for_good)
            || self.is_settling() && self.names == Names::Spent
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.phase.departure().is_some()
    }

    /// Whether nothing of it is left but what may come late.
    pub(in crate::machine::election) fn is_settling(&self) -> bool {
        self.phase.is_settling()
    }

    /// Whether it leaves in the background: the one that resigned waits for it no longer.
    pub(in crate::machine::election) fn is_left_behind(&self) -> bool {
        self.phase.is_left_behind() || self.is_settling()
    }

    /// At this time the one that resigned is told that it takes longer.
    pub(super) fn leaves_until(&self) -> Option<Instant> {
        let departure = self.phase.departure();
        let departure = departure.filter(|_| !self.phase.is_left_behind());
        departure.map(Departure::until)
    }

    /// Why it could not leave in order, if it could not.
    pub(in crate::machine::election) fn leave_failure(&self) -> Option<&RequestError> {
        self.phase.leave_failure().map(RequestError::at_face_value)
    }

    /// Gives the way out up: its session's TTL does the rest.
    pub(in crate::machine::election) fn abandon(&mut self) {
        self.session.abandon();
        self.phase.ended();
    }

    /// Whether nothing is sent, for a while after a failure: nobody here waits for it.
    pub(in crate::machine::election) fn rests(&self, now: Instant) -> bool {
        self.rests_until().is_some_and(|until| now < until)
    }

    pub(in crate::machine::election) fn rests_until(&self) -> Option<Instant> {
        self.phase.rests_until()
    }
}
