//! The way out of a candidacy, and what delays it.
//!
//! - *Leaving*: the key is untied exactly as it was seen, byte for byte, or read again if that is
//!   unknown. If Consul refuses that for good, and nobody else uses the session, its end unties the
//!   key.
//! - *Settling*: until a given-up attempt can no longer come, or the session has ended.
//!
//! Sources: Consul's documentation of the KV endpoint (`release` by a session that does not have
//! the key returns `false` and changes nothing); docs/CONSUL.md, "Limits and timeouts", on writes
//! that were given up.

use super::phase::Way;
use super::seen::Sight;
use super::{Candidacy, Fencing, Names};
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::machine::election::candidacy::departure::Departure;
use crate::machine::election::settings::ElectionSettings;
use crate::machine::process::tenancy::loan::Rest;
use crate::machine::process::tenancy::past::Past;
use crate::time::Instant;

impl Candidacy {
    /// Begins the way out, from any state.
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
        // One that hands on holds until the key is untied: till then its key tells whether the session
        // lives.
        if way == Way::End {
            self.session.leave();
        }
        // The session's end would leave a lock delay on the key, if an attempt has come meanwhile.
        if self.given_up.may_come(now) && self.is_key_known() {
            self.sight = Sight::Outdated { wanted_from: now };
        }
        self.pace.reset();
        self.may_hold &= !is_on(Defect::KeyLeftLocked);
        self.settle();
    }

    /// Does what needs no request. One step of the way out leads to the next.
    pub(super) fn settle(&mut self) {
        let is_on_way = self.is_leaving() || self.is_settling();
        if !is_on_way || self.writing.is_some() || self.is_detained() {
            return;
        }
        let past = self.led.map_or(Past::Nothing, Past::Term);
        self.session.give_back(past, self.rest_left());
        self.phase.ended();
    }

    /// Whether a write must untie the key from the session.
    pub(super) fn must_release(&self) -> bool {
        self.may_hold && self.is_key_known() && self.shown_as_own().is_some()
    }

    /// Whether only a read can tell if the key is tied to the session.
    pub(super) fn must_look(&self) -> bool {
        self.may_hold && !(self.is_key_known() && self.present().is_some())
    }

    fn is_key_known(&self) -> bool {
        self.unresolved.is_none() && self.sight == Sight::Current
    }

    /// Whether something of it is left on its session, or may come.
    pub(super) fn is_detained(&mut self) -> bool {
        if self.session.is_gone() {
            return false;
        }
        if self.must_release() || self.must_look() {
            if self.is_settling() {
                tracing::debug!(name: "late-term", "an attempt that was given up has tied the key late");
            }
            self.phase.comes_back();
            // The session's end would untie the key, too, but with a lock delay.
            self.session.comes_back();
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

    /// What it leaves on its session.
    pub(super) fn rest_left(&self) -> Rest {
        let is_in_order = self.fencing == Fencing::Whole && !self.may_hold;
        match self.names {
            _ if !is_in_order => Rest::Key,
            Names::Spent => Rest::Place,
            Names::Unused => Rest::Nothing,
        }
    }

    /// If it leaves, a step of the way out failed. A refusal may last, so the one that resigned is told
    /// at once.
    pub(super) fn leaving_failed(
        &mut self,
        now: Instant,
        failure: &RequestError,
        settings: &ElectionSettings,
    ) {
        let Some(departure) = self.phase.departure() else {
            return;
        };
        let mut ends = departure.ends_with(failure, now, &settings.session);
        if failure.is_permanent() && !failure.is_anothers() {
            self.phase.refused(failure.clone());
            // Nobody else uses the session, and its end unties the key.
            ends |= !settings.session.shares_sessions();
        }
        if failure.is_refusal() {
            self.phase.held_up(failure.clone());
        }
        if ends {
            self.abandon();
        }
    }

    /// Whether it would delay the next campaign for long. That is so if Consul has permanently
    /// refused its release, or if it waits for what may come late and can't lead again itself.
    pub(in crate::machine::election) fn keeps_others_out(&self) -> bool {
        let is_for_good = |it: &RequestError| it.is_permanent() && !it.is_anothers();
        self.phase.leave_failure().is_some_and(is_for_good)
            || self.is_settling() && self.names == Names::Spent
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.phase.departure().is_some()
    }

    /// Whether nothing of it is left except what may come late.
    pub(in crate::machine::election) fn is_settling(&self) -> bool {
        self.phase.is_settling()
    }

    /// Whether it leaves in the background: the one that resigned no longer waits.
    pub(in crate::machine::election) fn is_left_behind(&self) -> bool {
        self.is_held_up() || self.is_settling()
    }

    /// Whether it could not leave properly, and the one that resigned was told why.
    pub(in crate::machine::election) fn is_held_up(&self) -> bool {
        self.phase.is_left_behind()
    }

    /// When the one that resigned is told that it takes longer.
    pub(super) fn leaves_until(&self) -> Option<Instant> {
        let departure = self.phase.departure();
        let departure = departure.filter(|_| !self.phase.is_left_behind());
        departure.map(Departure::until)
    }

    /// Why it could not leave properly, if it could not.
    pub(in crate::machine::election) fn leave_failure(&self) -> Option<&RequestError> {
        self.phase.leave_failure().map(RequestError::at_face_value)
    }

    /// Gives the way out up: the session's TTL does the rest.
    pub(in crate::machine::election) fn abandon(&mut self) {
        self.session.abandon();
        self.phase.ended();
    }

    /// Whether nothing is sent for a while after a failure, because nobody here waits.
    pub(in crate::machine::election) fn rests(&self, now: Instant) -> bool {
        self.rests_until().is_some_and(|until| now < until)
    }

    pub(in crate::machine::election) fn rests_until(&self) -> Option<Instant> {
        self.phase.rests_until()
    }
}
