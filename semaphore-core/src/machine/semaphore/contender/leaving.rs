//! The way out, and what delays it.
//!
//! Out of the record, the key deleted, the session destroyed: each step is tried until Consul has
//! answered. A step that Consul refuses permanently is skipped, and so is a refused deletion that the session's end
//! does as well. Another temporary refusal, or another server's answer, is reported to the caller, and the step is
//! tried again in the background.
//!
//! The order keeps the queue short. If the record names a session without a key, all others take it
//! for a dead holder, and would leave its place alone for the lock delay. And a key outlives its
//! session if that only releases it (Consul's documentation of sessions), so the key goes first.

use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::machine::process::moment::Moment;
use crate::machine::process::tenancy::departure::Departure;
use crate::machine::semaphore::contender::phase::{Leaving, SessionFate};
use crate::machine::semaphore::contender::{Contender, Presence};
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

impl Contender {
    /// A write that should remove it from the record failed, or its outcome is unknown.
    pub(in crate::machine) fn withdrawal_failed(&mut self, failure: &RequestError) {
        self.phase.withdrawal_failed(failure);
    }

    /// Begins the way out, from any state.
    pub(in crate::machine) fn leave(&mut self, now: Instant, moment: Moment, settings: &Settings) {
        self.leave_with(now, moment, SessionFate::Ended, settings);
    }

    /// The same, because its session can't be used here.
    pub(in crate::machine) fn leave_for_another(
        &mut self,
        now: Instant,
        moment: Moment,
        settings: &Settings,
    ) {
        self.leave_with(now, moment, SessionFate::Doubted, settings);
    }

    /// The same. `session` decides what happens to its session.
    pub(super) fn leave_with(
        &mut self,
        now: Instant,
        moment: Moment,
        session: SessionFate,
        settings: &Settings,
    ) {
        let departure = Departure::begin(now, &settings.session);
        if !self.phase.left(departure, session) {
            return;
        }
        self.session.leave();
        if is_on(Defect::ReleaseNotFenced) && matches!(self.presence, Presence::Maybe(_)) {
            self.presence = Presence::No;
        }
        self.settle(moment);
    }

    /// Skips a step of the way out that will never succeed, or is not needed. A session stays until it can be ended.
    pub(super) fn skip(&mut self, moment: Moment, failure: RequestError) {
        if !self.is_leaving() {
            return;
        }
        self.phase.skipped(failure.clone());
        if self.presence != Presence::No {
            self.withdrawn(moment);
        } else if !self.key.is_deleted() {
            self.key.forget();
        } else if self.session.id().is_none() {
            self.session.abandon();
        } else {
            self.phase.held_up(failure);
        }
        self.settle(moment);
    }

    /// A step of the way out failed.
    pub(in crate::machine) fn leaving_failed(
        &mut self,
        now: Instant,
        moment: Moment,
        failure: &RequestError,
        settings: &Settings,
    ) {
        let Some(departure) = self.phase.leaving().map(Leaving::departure) else {
            return;
        };
        let is_for_good = failure.is_permanent() && !failure.is_anothers();
        let is_needless = self.presence == Presence::No && self.key.ends_with_session();
        if departure.ends_with(failure, now, &settings.session) {
            self.phase.held_up(failure.at_face_value().clone());
            self.abandon();
        } else if is_for_good || is_needless && failure.is_refusal() {
            self.skip(moment, failure.at_face_value().clone());
        } else {
            self.held_up(failure);
        }
    }

    /// A temporary refusal, or another server's answer, may last for long: the caller is told at
    /// once.
    fn held_up(&mut self, failure: &RequestError) {
        let refusal = match failure {
            RequestError::RefusedForNow(refusal) => refusal,
            failure if failure.is_anothers() => failure,
            _ => return,
        };
        self.phase.held_up(refusal.clone());
    }

    /// Whether it leaves in the background: the caller was told why it could not leave properly, or
    /// need not wait for what may come late.
    pub(in crate::machine) fn is_left_behind(&self) -> bool {
        self.is_held_up() || self.is_leaving() && self.key.settles_at().is_some()
    }

    /// Whether it could not leave properly, and the caller was told why.
    pub(in crate::machine) fn is_held_up(&self) -> bool {
        self.phase.is_in_background()
    }

    /// Since when it has been leaving.
    pub(in crate::machine) fn left_at(&self, settings: &Settings) -> Option<Instant> {
        let departure = self.phase.leaving()?.departure();
        Some(departure.began_at(&settings.session))
    }

    /// Gives the way out up: the session's TTL does the rest.
    pub(in crate::machine) fn abandon(&mut self) {
        tracing::warn!(name: "given-up", session = ?self.session.id(), "leaves a session to its TTL");
        self.session.abandon();
        self.phase.end_session();
        self.phase.ended();
    }
}
