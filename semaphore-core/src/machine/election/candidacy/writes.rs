//! What a candidacy writes, and what follows from the answers.

use core::time::Duration;

use crate::api::{LOCK_FLAGS, ReleaseKey};
use crate::defect::{Defect, is_on};
use crate::election_key::ElectionKey;
use crate::error::{Refusal, RequestError};
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::election::candidacy::phase::State;
use crate::machine::election::candidacy::seen::{Sight, View, changed};
use crate::machine::election::candidacy::{Asked, Candidacy, CandidacyEvent, Fencing, Writing};
use crate::machine::election::settings::ElectionSettings;
use crate::machine::election::write::{self, Acquired};
use crate::machine::process::failed::Failed;
use crate::machine::process::moment::Moment;
use crate::time::Instant;

/// How soon the watch shows a change that made an attempt late, if it works. If the watch is paced,
/// the time of its next poll counts.
pub(super) const WATCH_TELLS: Duration = Duration::from_millis(100);

impl Candidacy {
    pub(super) fn write(&mut self, now: Instant, settings: &ElectionSettings) -> Option<Request> {
        let session = self.session.id()?.clone();
        if self.is_leaving() {
            if let Some((request, value)) = self.hand_on(now, &session, settings) {
                self.writing = Some(Writing::HandOn { value });
                return Some(request);
            }
            self.end_after_all();
            if let Some((request, value)) = self.fenced_release(&session, settings) {
                self.writing = Some(Writing::HandOn { value });
                return Some(request);
            }
            self.fencing = Fencing::Partial;
            let ours = self.shown_as_own();
            let flags = ours.map_or(LOCK_FLAGS, |key| key.flags);
            let request = write::release(&session, self.value_to_leave(), flags, settings);
            self.writing = Some(Writing::Release);
            return Some(request);
        }
        let base = self.base();
        let request = if self.is_leading() {
            write::change(&session, &self.value, base, settings)
        } else {
            write::acquire(&session, &self.value, base, settings)
        };
        self.writing = Some(Writing::Acquisition {
            value: self.value.clone(),
            base,
        });
        self.may_hold = true;
        Some(request)
    }

    /// The value that a release leaves. `?release` writes its body as the value (Consul's
    /// documentation of the KV endpoint; seen on 1.8.7). The key should keep the value that it last
    /// showed for us: a wanted value that was perhaps never written would be a guess. A key that
    /// has become something else keeps its value.
    fn value_to_leave(&self) -> &[u8] {
        let is_anothers = |key: &&ElectionKey| key.foreign_flags().is_some();
        let anothers = self.shown_as_own().filter(is_anothers);
        let said = anothers.map(|key| &key.value).or(self.last_shown.as_ref());
        said.unwrap_or(&self.value)
    }

    /// The session is not kept for the next campaign here.
    fn end_after_all(&mut self) {
        self.phase.cannot_hand_on();
        self.session.leave();
    }

    /// Gives the key back as it was seen. A key that has become something else keeps each of its
    /// bytes, as if the session ended.
    fn fenced_release(
        &self,
        session: &SessionId,
        settings: &ElectionSettings,
    ) -> Option<(Request, Vec<u8>)> {
        let ours = self.shown_as_own()?;
        let value = self.value_to_leave();
        let request = write::hand_on(session, value, ours, settings)?;
        Some((request, value.to_vec()))
    }

    /// A release that keeps the session, and the value that it leaves.
    fn hand_on(
        &self,
        now: Instant,
        session: &SessionId,
        settings: &ElectionSettings,
    ) -> Option<(Request, Vec<u8>)> {
        let is_whole = |key: &&ElectionKey| key.foreign_flags().is_none() && !key.is_overwritten();
        let ours = self.shown_as_own().filter(is_whole)?;
        let value = self.value_to_leave();
        // The next term begins with the candidate's present value, so the key must not be left with
        // an older one.
        let is_newest = value == settings.value.as_bytes();
        let may_be_kept = self.unresolved.is_none() && self.may_be_kept(now);
        if !self.phase.hands_on() || !is_newest || !may_be_kept {
            return None;
        }
        let request = write::hand_on(session, value, ours, settings)?;
        Some((request, value.to_vec()))
    }

    pub(super) fn handle_write(
        &mut self,
        now: Instant,
        asked: Asked,
        answer: Result<&Response, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        match self.writing.take()? {
            Writing::Release => {
                self.handle_release(now, answer, settings, rng);
                None
            }
            Writing::HandOn { value } => {
                let given_back = answer.and_then(|it| write::handed_on(it, &value, settings));
                self.handle_hand_on(now, asked, given_back, settings, rng)
            }
            Writing::Acquisition { value, base } => {
                let session = self.session.id()?.clone();
                let acquired = answer
                    .and_then(|response| write::acquired(response, &session, &value, settings));
                // If the watch has shown a change meanwhile, no read is needed.
                if matches!(acquired, Ok(Acquired::Outdated)) && self.base() == base {
                    let wanted_from = now + WATCH_TELLS;
                    self.sight = Sight::Outdated { wanted_from };
                }
                if let Err(error) = &acquired
                    && !error.was_not_applied()
                {
                    self.given_up.add(now, base);
                }
                self.handle_acquisition(now, asked, acquired, settings, rng)
            }
        }
    }

    fn handle_acquisition(
        &mut self,
        now: Instant,
        asked: Asked,
        acquired: Result<Acquired, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        let moment = asked.moment;
        self.failure = acquired.as_ref().err().cloned();
        match acquired {
            Ok(Acquired::Tied(shown)) => {
                self.pace.reset();
                let event = self.observe(now, View::of(shown), asked, settings, rng);
                // If it already leads, or has resigned meanwhile, it waits for nothing.
                if self.is_campaigning() {
                    self.pace.refused(now, rng);
                }
                return event;
            }
            // If the agent says that it was applied, but the key shows otherwise, it waits as after
            // a refusal.
            Ok(Acquired::Untold) => {
                self.unresolved = Some(moment);
                if !self.is_leaving() {
                    self.pace.refused(now, rng);
                }
            }
            Ok(Acquired::Refused) => return self.refused(now, moment, rng),
            Ok(Acquired::Outdated) if self.is_campaigning() && self.pace.may_repeat_at_once() => {
                tracing::debug!(name: "late-attempt", "the key changed before an attempt to lead");
                // Our own given-up attempt may have changed it.
                self.may_hold = self.given_up.may_come(now);
            }
            Ok(Acquired::Outdated) => {
                let event = self.refused(now, moment, rng);
                if self.is_campaigning() && self.sight != Sight::Current {
                    let wanted_from = self.pace.due();
                    self.sight = Sight::Outdated { wanted_from };
                }
                return event;
            }
            // The session has ended, and another one may work: this is not reported as a failure.
            Err(RequestError::InvalidSession { .. }) => {
                self.failure = None;
                self.session.found_gone();
            }
            Err(_) if is_on(Defect::UnknownTakenForNotApplied) => self.may_hold = false,
            Err(error) if error.was_not_applied() => {
                self.may_hold = self.has_key() || self.given_up.may_come(now);
                self.pace.failed(now, rng);
                let sent_at = asked.sent_at;
                return self.refuse(Failed { sent_at, error });
            }
            // A read tells whether it was applied, but not whether it will be.
            Err(error) => {
                tracing::debug!(name: "unknown-attempt", %error, "a write of the key may have been applied");
                self.unresolved = Some(moment);
                self.pace.failed(now, rng);
            }
        }
        None
    }

    /// The index of the key's last known change; zero if it is missing.
    pub(super) fn base(&self) -> Index {
        changed(self.shown())
    }

    /// Whether it has the key, as far as is known. A term that is about to end still has it: that may only have changed
    /// by a copy of the write.
    fn has_key(&self) -> bool {
        self.is_leading() || self.is_leaving() && self.shown_as_own().is_some()
    }

    /// The key could not be acquired.
    fn refused(
        &mut self,
        now: Instant,
        moment: Moment,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        tracing::debug!(name: "refused-attempt", "the key was not to be had");
        self.pace.refused(now, rng);
        // An earlier attempt with an unknown outcome is resolved now, or may still come.
        self.may_hold = self.has_key() || self.given_up.may_come(now);
        match self.phase.state() {
            State::Campaigning => Some(CandidacyEvent::NotAvailable(Refusal::KeyUnavailable)),
            // Apparently it is no longer ours.
            State::Leading(_) => {
                self.unresolved = Some(moment);
                None
            }
            State::Leaving(_) | State::Settling(_) | State::Gone(_) => None,
        }
    }

    fn handle_hand_on(
        &mut self,
        now: Instant,
        asked: Asked,
        given_back: Result<Option<ElectionKey>, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        let is_kept = self.phase.hands_on() && self.has_valid_lease(now);
        if !is_kept {
            self.end_after_all();
        }
        match given_back {
            Ok(Some(shown)) => {
                self.failure = None;
                self.may_hold = false;
                self.phase.handed_on();
                self.session.let_go();
                self.pace.reset();
                self.observe(now, View::of(shown), asked, settings, rng);
                return is_kept.then_some(CandidacyEvent::HandedOn);
            }
            // The key is read, and released as it is then.
            Ok(None) => {
                self.end_after_all();
                self.sight = Sight::Outdated { wanted_from: now };
                self.pace.failed(now, rng);
            }
            Err(RequestError::InvalidSession { .. }) => {
                self.failure = None;
                self.session.found_gone();
            }
            Err(error) => {
                self.end_after_all();
                self.leaving_failed(now, &error, settings);
                self.unresolved = Some(asked.moment);
                self.failure = Some(error);
                self.pace.failed(now, rng);
            }
        }
        None
    }

    fn handle_release(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) {
        match answer.and_then(ReleaseKey::parse) {
            // It was untied now, or before.
            Ok(_) | Err(RequestError::InvalidSession { .. }) => {
                self.failure = None;
                self.may_hold = false;
            }
            Err(error) => {
                self.leaving_failed(now, &error, settings);
                self.failure = Some(error);
                self.pace.failed(now, rng);
            }
        }
    }

    /// A write was refused.
    fn refuse(&self, failed: Failed) -> Option<CandidacyEvent> {
        if !failed.error.is_permanent() {
            return None;
        }
        match self.phase.state() {
            State::Campaigning => Some(CandidacyEvent::Refused(failed)),
            State::Leading(_) => Some(CandidacyEvent::ValueRefused(failed.error)),
            State::Leaving(_) | State::Settling(_) | State::Gone(_) => None,
        }
    }
}
