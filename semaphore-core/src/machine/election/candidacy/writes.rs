//! What a candidacy writes, and what follows from the answers.

use core::time::Duration;

use super::{Candidacy, CandidacyEvent, Phase, Writing};
use crate::api::{CasKey, LOCK_FLAGS, ReleaseKey};
use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::Index;
use crate::machine::backoff::jitter;
use crate::machine::election::settings::ElectionSettings;
use crate::machine::election::write::{self, Acquired};
use crate::machine::encoding::Encoding;
use crate::machine::order::Moment;
use crate::time::Instant;

impl Candidacy {
    pub(super) fn write(&mut self, settings: &ElectionSettings) -> Option<Request> {
        let session = self.session.id()?.clone();
        let shown = self.shown();
        if self.is_leaving() {
            let ours = shown.filter(|key| key.session.as_ref() == Some(&session));
            let (value, flags) = match ours {
                Some(key) => (&key.value, key.flags),
                None => (&self.value, LOCK_FLAGS),
            };
            let request = write::release(&session, value, flags, settings);
            self.writing = Some(Writing::Release);
            return Some(request);
        }
        let base = shown.map_or(Index::ZERO, |key| key.modify_index);
        let request = if self.is_leading() && is_on(Defect::ValueWithoutAcquire) {
            CasKey {
                key: settings.key.as_str(),
                index: base,
                value: &self.value,
                flags: LOCK_FLAGS,
            }
            .request(settings.scope())
        } else {
            write::acquire(&session, &self.value, base, settings)
        };
        self.writing = Some(Writing::Acquisition(
            Encoding::of(&request),
            self.value.clone(),
        ));
        self.may_hold = true;
        Some(request)
    }

    pub(super) fn handle_write(
        &mut self,
        now: Instant,
        moment: Moment,
        answer: Result<&Response, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        match self.writing.take()? {
            Writing::Release => {
                self.handle_release(now, answer, rng);
                None
            }
            Writing::Acquisition(encoding, value) => {
                let session = self.session.id()?.clone();
                let acquired = answer.and_then(|response| {
                    write::acquired(encoding, response, &session, &value, settings)
                });
                self.handle_acquisition(now, moment, acquired, settings, rng)
            }
        }
    }

    fn handle_acquisition(
        &mut self,
        now: Instant,
        moment: Moment,
        acquired: Result<Acquired, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        self.failure = acquired.as_ref().err().cloned();
        match acquired {
            Ok(Acquired::Tied(shown)) => {
                self.write_backoff.reset();
                return self.observe(now, Some(shown), moment, settings);
            }
            Ok(Acquired::Untold) => self.unresolved = Some(moment),
            Ok(Acquired::Refused) => return self.refused(now, moment, rng),
            Ok(Acquired::Outdated) => {
                self.is_outdated = true;
                return self.refused(now, moment, rng);
            }
            Err(RequestError::InvalidSession { .. }) => self.session.found_gone(),
            Err(_) if is_on(Defect::UnknownTakenForNotApplied) => self.may_hold = false,
            Err(error) if error.was_not_applied() => {
                self.write_at = Some(now + self.write_backoff.next(rng));
                return self.refuse(error);
            }
            // Whether it was applied, or will be, only a read tells.
            Err(_) => {
                self.unresolved = Some(moment);
                self.write_at = Some(now + self.write_backoff.next(rng));
            }
        }
        None
    }

    /// The key was not to be had.
    fn refused(
        &mut self,
        now: Instant,
        moment: Moment,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        self.write_at = Some(now + jitter(PACE / 2, PACE / 2, rng));
        if is_on(Defect::LockDelayIgnored) {
            self.write_at = None;
        }
        if is_on(Defect::RefusalTakenForGood) {
            self.write_at = Some(now + PACE * 3_600);
        }
        // An attempt before it whose outcome was unknown had been resolved.
        self.may_hold = self.is_leading();
        match self.phase {
            Phase::Campaigning => Some(CandidacyEvent::NotAvailable),
            // Then it is not ours, as it seems.
            Phase::Leading(_) => {
                self.unresolved = Some(moment);
                None
            }
            Phase::Leaving { .. } | Phase::Gone => None,
        }
    }

    fn handle_release(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
        rng: &mut fastrand::Rng,
    ) {
        match answer.and_then(ReleaseKey::parse) {
            // Untied now, or before.
            Ok(_) | Err(RequestError::InvalidSession { .. }) => self.may_hold = false,
            Err(error) if error.is_permanent() => {
                self.leave_failure.get_or_insert(error);
                self.may_hold = false;
            }
            Err(error) => {
                self.failure = Some(error);
                self.write_at = Some(now + self.write_backoff.next(rng));
            }
        }
    }

    /// A write was refused.
    fn refuse(&self, error: RequestError) -> Option<CandidacyEvent> {
        if !error.is_permanent() {
            return None;
        }
        match self.phase {
            Phase::Campaigning => Some(CandidacyEvent::Refused(Error::Request(error))),
            Phase::Leading(_) => Some(CandidacyEvent::ValueRefused(error)),
            Phase::Leaving { .. } | Phase::Gone => None,
        }
    }
}

/// How long one attempt is apart from the next, at most; half of it at least.
const PACE: Duration = Duration::from_secs(1);
