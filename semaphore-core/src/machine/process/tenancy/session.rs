//! The life of one session.
//!
//! ```text
//!            created                     renewed (the lease starts anew)
//! Creating ───────────┐                    ┌──┐
//!                     ├──────────▶  Live ──┴──┘ and the leader confirms it
//! Adopting ───────────┘              │  └── the leader knows no such session ──▶ Gone
//!            renewed                 │ end()
//!                                    ▼
//!                    Destroying (only one that we made) ──▶ Ended
//! ```
//! - `Creating`: a session of ours is being made. An answer that never comes leaves an orphan,
//!   which dies by its TTL; the next attempt makes another one.
//! - `Adopting`: a session of the caller's is renewed once, which tells its TTL and starts the lease.
//! - `Live`: renewed after a quarter to a third of the TTL. Failures are retried with backoff for as long as
//!   nobody says that the session is gone. Consul does not write renewals to its log: a leader that was frozen, and
//!   wakes to find that there is another one, renews for some milliseconds sessions that have ended (seen on 1.8.7); a
//!   new one that has yet to catch up with its log knows no session that it should. So an answer only raises a *doubt*, if
//!   somebody holds or leads by the session, if its lease was over already, or if it says that there is none. A read for which
//!   the leader confirms itself with the majority settles it.
//!
//! Sources: Consul's documentation of sessions (`TTL`, `LockDelay`, `Behavior`; `NodeChecks`, which end a session with its
//! node's health unless the list is empty) and of the session endpoints.

use core::time::Duration;

use crate::api::{CreateSession, DestroySession, RenewSession, SessionInfo, is_filtered};
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Priority, Request, Response};
use crate::id::SessionId;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::settings::{SessionSettings, SessionSource};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Session {
    state: State,
    in_flight: Option<InFlight>,
    /// What a renewal's answer says and the leader has to confirm.
    doubt: Option<Doubt>,
    /// How long nobody acquires its keys after it was invalidated.
    lock_delay: Duration,
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// Why the last attempt at the present step failed.
    failure: Option<RequestError>,
}

#[derive(Clone, Debug)]
enum State {
    Creating,
    Adopting(SessionId),
    Live(SessionId, Lease),
    Gone(Option<SessionId>),
    Destroying(SessionId),
    Ended,
}

/// What a renewal was answered, by a leader that may be one no more, or that has yet to apply its log.
#[derive(Clone, Copy, Debug)]
enum Doubt {
    /// There is no such session.
    Missing,
    /// It has this lease, if it lives.
    Renewed(Lease),
}

/// The request that is under way.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    sent: Sent,
    sent_at: Instant,
}

/// Which request is under way: the state may have moved on since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Creation,
    Renewal,
    Inquiry,
    Destruction,
}

impl Session {
    /// A session from the settings' source.
    pub(in crate::machine) fn new(settings: &SessionSettings) -> Self {
        let state = match &settings.source {
            SessionSource::Create(_) => State::Creating,
            SessionSource::Callers(id) => State::Adopting(id.clone()),
        };
        Self {
            state,
            in_flight: None,
            doubt: None,
            lock_delay: settings.lock_delay(),
            retry_at: None,
            backoff: Backoff::new(Duration::from_millis(200), settings.retry_cap()),
            failure: None,
        }
    }

    /// One that was handed on.
    pub(in crate::machine) fn ended() -> Self {
        Self {
            state: State::Ended,
            in_flight: None,
            doubt: None,
            lock_delay: Duration::ZERO,
            retry_at: None,
            backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
            failure: None,
        }
    }

    /// Whether another contender may use it: it lives, and nothing is unanswered.
    pub(in crate::machine) fn is_reusable(&self) -> bool {
        self.is_live() && self.in_flight.is_none() && self.doubt.is_none() && self.failure.is_none()
    }

    /// The id, once it is known.
    pub(in crate::machine) fn id(&self) -> Option<&SessionId> {
        match &self.state {
            State::Adopting(id) | State::Live(id, _) | State::Destroying(id) => Some(id),
            State::Gone(id) => id.as_ref(),
            State::Creating | State::Ended => None,
        }
    }

    /// The lease of a live session.
    pub(in crate::machine) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Live(_, lease) => Some(lease),
            _ => None,
        }
    }

    /// How long nobody acquires its keys after it was invalidated.
    pub(in crate::machine) fn lock_delay(&self) -> Duration {
        self.lock_delay
    }

    pub(in crate::machine) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    pub(in crate::machine) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Whether [`Self::end`] was called.
    pub(in crate::machine) fn is_ending(&self) -> bool {
        matches!(self.state, State::Destroying(_) | State::Ended)
    }

    /// Whether creation is still under way, so that an id may yet turn up.
    pub(in crate::machine) fn is_being_created(&self) -> bool {
        let is_creation = |it: InFlight| it.sent == Sent::Creation;
        self.in_flight.is_some_and(is_creation)
    }

    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    /// Consul said elsewhere that it knows no such session.
    pub(in crate::machine) fn found_gone(&mut self) {
        if let State::Adopting(id) | State::Live(id, _) = &self.state {
            self.state = State::Gone(Some(id.clone()));
            self.retry_at = None;
        }
    }

    /// Nothing needs the session any more: destroys it if it is ours.
    pub(in crate::machine) fn end(&mut self, settings: &SessionSettings) {
        self.retry_at = None;
        self.failure = None;
        self.backoff.reset();
        self.state = match core::mem::replace(&mut self.state, State::Ended) {
            // One that seems to be gone may not be: its contender key can be deleted alone.
            State::Live(id, _) | State::Gone(Some(id))
                if settings.owns_sessions() && !is_on(Defect::SessionLeftBehind) =>
            {
                State::Destroying(id)
            }
            State::Destroying(id) => State::Destroying(id),
            _ => State::Ended,
        };
    }

    /// Gives the session's destruction up: its TTL does it.
    pub(in crate::machine) fn abandon(&mut self) {
        self.state = State::Ended;
        self.retry_at = None;
    }

    /// Whether a request of this session is due.
    pub(in crate::machine) fn is_due(&self, now: Instant) -> bool {
        self.timeout().is_some_and(|due| due <= now)
    }

    /// When a request is due, unless one is under way.
    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        if self.in_flight.is_some() {
            return None;
        }
        match &self.state {
            State::Creating | State::Adopting(_) | State::Destroying(_) => {
                Some(self.retry_at.unwrap_or(Instant::ORIGIN))
            }
            State::Live(..) if self.doubt.is_some() => {
                Some(self.retry_at.unwrap_or(Instant::ORIGIN))
            }
            State::Live(_, lease) => Some(self.retry_at.unwrap_or_else(|| lease.renew_at())),
            State::Gone(_) | State::Ended => None,
        }
    }

    /// The request that is due.
    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        settings: &SessionSettings,
    ) -> Option<Request> {
        if !self.is_due(now) {
            return None;
        }
        let scope = &settings.scope;
        let (sent, request) = match (&self.state, &settings.source) {
            (State::Creating, SessionSource::Create(options)) => {
                (Sent::Creation, CreateSession { options }.request(scope))
            }
            (State::Adopting(session) | State::Live(session, _), _) if self.doubt.is_some() => {
                let request = SessionInfo { session }.request(scope);
                (Sent::Inquiry, request.with_priority(Priority::Urgent))
            }
            (State::Adopting(session) | State::Live(session, _), _) => {
                (Sent::Renewal, RenewSession { session }.request(scope))
            }
            (State::Destroying(session), _) => {
                (Sent::Destruction, DestroySession { session }.request(scope))
            }
            _ => return None,
        };
        let sent_at = now;
        self.in_flight = Some(InFlight { sent, sent_at });
        self.retry_at = None;
        Some(request.with_timeout(settings.request_timeout()))
    }

    /// Takes the answer to the request under way. Whether somebody holds or leads by this session decides what it takes
    /// to believe it.
    pub(in crate::machine) fn handle(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
        is_held_by: bool,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        let Some(InFlight { sent, sent_at }) = self.in_flight.take() else {
            return;
        };
        let sent_at = if is_on(Defect::LeaseFromAnswer) {
            now
        } else {
            sent_at
        };
        let outcome = match (sent, &self.state) {
            (Sent::Creation, State::Creating) => {
                let lease = Lease::new(sent_at, settings.ttl(), rng);
                answer
                    .and_then(CreateSession::parse)
                    .map(|id| State::Live(id, lease))
                    .map_err(|error| settings.refused_creation(error))
            }
            (Sent::Renewal, State::Adopting(id) | State::Live(id, _)) => {
                answer.and_then(RenewSession::parse).map(|renewed| {
                    if !settings.owns_sessions() {
                        let told = renewed.lock_delay.unwrap_or(self.lock_delay);
                        self.lock_delay = told;
                    }
                    let lease = Lease::new(sent_at, settings.lease(renewed), rng);
                    State::Live(id.clone(), lease)
                })
            }
            (Sent::Inquiry, State::Adopting(_) | State::Live(..)) => {
                return self.handle_inquiry(now, answer, rng);
            }
            (Sent::Destruction, State::Destroying(_)) => answer
                .and_then(DestroySession::parse)
                .map(|()| State::Ended),
            _ => return,
        };
        match outcome {
            Ok(State::Live(_, lease)) if self.must_be_confirmed(now, is_held_by) => {
                self.doubt = Some(Doubt::Renewed(lease));
                self.failure = None;
            }
            Ok(state) => {
                self.state = state;
                self.failure = None;
                self.backoff.reset();
            }
            Err(RequestError::InvalidSession { .. })
                if sent == Sent::Renewal && !is_on(Defect::MissingSessionBelieved) =>
            {
                self.doubt = Some(Doubt::Missing);
                self.failure = None;
            }
            Err(RequestError::InvalidSession { .. }) => self.handle_gone(),
            Err(_) if self.is_live() && is_on(Defect::TransientTakenForLoss) => self.handle_gone(),
            Err(error) => {
                self.failure = Some(error);
                self.retry_at = Some(now + self.backoff.next(rng));
                if self.is_live() && is_on(Defect::RenewalStoppedAfterTransient) {
                    self.retry_at = Some(now + settings.ttl());
                }
            }
        }
    }

    /// Whoever is told that there is no such session, and may not ask whether that is so, gives it up. Who was
    /// told otherwise goes on asking for as long as the lease lasts.
    fn handle_inquiry(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
        rng: &mut fastrand::Rng,
    ) {
        let is_missing = matches!(self.doubt, Some(Doubt::Missing));
        let found = answer.and_then(|response| match SessionInfo::parse(response)? {
            None if is_filtered(response) => Err(hidden()),
            found => Ok(found),
        });
        match found {
            Ok(None) => self.handle_gone(),
            Err(RequestError::Denied { .. }) if is_missing => self.handle_gone(),
            Ok(Some(_)) => {
                self.failure = None;
                match (self.doubt.take(), &self.state) {
                    (Some(Doubt::Renewed(lease)), State::Live(id, _)) => {
                        self.state = State::Live(id.clone(), lease);
                        self.backoff.reset();
                    }
                    _ => self.retry_at = Some(now + self.backoff.next(rng)),
                }
            }
            Err(error) => {
                self.failure = Some(error);
                self.retry_at = Some(now + self.backoff.next(rng));
            }
        }
    }

    /// Whoever waits has only to renew in time: Consul ties no key to a session that has ended.
    fn must_be_confirmed(&self, now: Instant, is_held_by: bool) -> bool {
        let has_lapsed = self.lease().is_some_and(|lease| !lease.is_valid(now));
        let is_doubtful = has_lapsed || self.is_live() && is_held_by;
        is_doubtful && !is_on(Defect::RenewalUnconfirmed)
    }

    fn is_live(&self) -> bool {
        matches!(self.state, State::Live(..))
    }

    fn handle_gone(&mut self) {
        self.failure = None;
        self.state = match core::mem::replace(&mut self.state, State::Ended) {
            State::Adopting(id) | State::Live(id, _) => State::Gone(Some(id)),
            State::Creating | State::Gone(None) => State::Gone(None),
            State::Gone(id) => State::Gone(id),
            State::Destroying(_) | State::Ended => State::Ended,
        };
    }
}

fn hidden() -> RequestError {
    RequestError::Denied {
        text: "the answer leaves the session out".to_owned(),
    }
}

#[cfg(test)]
mod tests;
