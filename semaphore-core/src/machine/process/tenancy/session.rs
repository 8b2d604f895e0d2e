//! The life of one session.
//!
//! ```text
//! Registering
//!     ▲ │ it is there
//!     │ ▼    created                       renewed (the lease starts again)
//! Creating ──────────▶  Live ──┬──┐
//!                        │ │   └──┘ and the leader confirms it
//!                        │ └── the leader knows no such session ──▶ Gone
//!                        │ end()
//!                        ▼
//!                    Destroying ──▶ Ended
//! ```
//! - `Creating`: our session is being created. A lost answer leaves an orphan, which ends by its
//!   TTL; the next attempt creates another one.
//! - `Registering`: its node is missing, and has no agent.
//! - `Live`: renewed after a quarter to a third of the TTL. While somebody holds or leads with it,
//!   it is renewed after a sixteenth to a twelfth, whatever happened to the last renewal: an outage
//!   may begin at any moment, and may last as long as the rest of the lease. Failures are retried with backoff until somebody says that the session is gone. Consul does not write renewals to
//!   its log. A former leader that was frozen may renew ended sessions for some milliseconds (seen
//!   on 1.8.7), and a new leader that has not applied its log does not know sessions that it
//!   should. So an answer alone does not count if somebody holds or leads with the session, if its
//!   lease was already over, or if it says that the session does not exist. A read that the leader
//!   confirms with the majority settles it; if answers are slow, it is sent together with the
//!   renewal. Without a renewal that says the same, a read that shows no session ends nothing. Any other proof that the session lived after the renewal was sent also counts.
//!
//! Sources: Consul's documentation of sessions (`TTL`, `LockDelay`, `Behavior`; `NodeChecks`, which
//! end a session with its node's health unless the list is empty) and of the session endpoints.

mod pace;

use core::time::Duration;

use crate::api::{
    CreateSession, DestroySession, RegisterNode, RenewSession, SessionInfo, is_filtered,
};
use crate::defect::{Defect, is_on};
use crate::error::{Lost, RequestError};
use crate::http::{Priority, Request, Response};
use crate::id::SessionId;
use crate::machine::process::latency::Latency;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::Belief;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;
use crate::transport::TransportErrorKind;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Session {
    state: State,
    /// The requests under way: several renewals, and one of anything else.
    in_flight: Vec<InFlight>,
    /// When the last creation or renewal was sent.
    renewed_at: Instant,
    /// Since when it is renewed early. `None` unless somebody holds or leads with it.
    early_from: Option<Instant>,
    /// What made the last renewal count.
    belief: Belief,
    /// The leases of successful renewals, until the leader confirms that the session lived since;
    /// the oldest first. A later renewal may be answered before an earlier one is confirmed.
    unconfirmed: Vec<Lease>,
    /// When the first of these was answered.
    unconfirmed_since: Option<Instant>,
    /// When the last request was sent whose answer proves that it lived then or later.
    known_at: Instant,
    /// Since when a renewal says that there is no such session. If the leader says the same, it is gone.
    missing: Option<Instant>,
    latency: Latency,
    /// Since when nothing is answered in time. An agent without a leader holds each request for up
    /// to 18 s, and its connection counts that long, even if nobody waits any more (measured on
    /// 1.23).
    silent_since: Option<Instant>,
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// Why the last attempt at the present step failed.
    failure: Option<RequestError>,
}

#[derive(Clone, Debug)]
enum State {
    Creating,
    Registering,
    Live(SessionId, Lease),
    Gone(Option<SessionId>),
    Destroying(SessionId),
    Ended,
}

/// A request under way. The state may have changed since it was sent.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    no: u32,
    sent: Purpose,
    sent_at: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    Creation,
    Registration,
    Renewal,
    Inquiry,
    Destruction,
}

/// The most renewals that wait for a confirmation. The oldest ones matter least.
const MOST_UNCONFIRMED: usize = 32;

/// A hold is not renewed early in its first moments: most are over by then.
const FIRST_MOMENTS: Duration = Duration::from_millis(250);

impl Session {
    /// A session that is still to be created.
    pub(in crate::machine) fn new(settings: &SessionSettings) -> Self {
        let backoff = Backoff::new(Duration::from_millis(200), settings.retry_cap());
        Self::in_state(State::Creating, backoff)
    }

    fn in_state(state: State, backoff: Backoff) -> Self {
        Self {
            state,
            in_flight: Vec::new(),
            renewed_at: Instant::ORIGIN,
            early_from: None,
            belief: Belief::Answered,
            unconfirmed: Vec::new(),
            unconfirmed_since: None,
            known_at: Instant::ORIGIN,
            missing: None,
            latency: Latency::default(),
            silent_since: None,
            retry_at: None,
            backoff,
            failure: None,
        }
    }

    /// The id, once it is known.
    pub(in crate::machine) fn id(&self) -> Option<&SessionId> {
        match &self.state {
            State::Live(id, _) | State::Destroying(id) => Some(id),
            State::Gone(id) => id.as_ref(),
            State::Creating | State::Registering | State::Ended => None,
        }
    }

    /// The lease of a live session.
    pub(in crate::machine) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Live(_, lease) => Some(lease),
            _ => None,
        }
    }

    pub(in crate::machine) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// What its holder or leader loses when its lease is over.
    pub(in crate::machine) fn lease_expired(&self, now: Instant) -> Option<Lost> {
        let lease = self.lease()?;
        let last_sent = Some(self.renewed_at);
        Some(lease.expired(now, self.id()?.clone(), self.failure.as_ref(), last_sent))
    }

    pub(in crate::machine) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Whether [`Self::end`] was called.
    pub(in crate::machine) fn is_ending(&self) -> bool {
        matches!(self.state, State::Destroying(_) | State::Ended)
    }

    /// Whether its creation is under way, so that an id may still arrive.
    pub(in crate::machine) fn is_being_created(&self) -> bool {
        let is_creation = |it: &InFlight| matches!(it.sent, Purpose::Creation);
        self.in_flight.iter().any(is_creation)
    }

    /// Whether the next request creates it.
    pub(in crate::machine) fn wants_creation(&self) -> bool {
        matches!(self.state, State::Creating)
    }

    /// Whether this request under way creates it.
    pub(in crate::machine) fn is_creation(&self, no: u32) -> bool {
        let mut all = self.in_flight.iter();
        all.any(|it| it.no == no && matches!(it.sent, Purpose::Creation))
    }

    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    /// Somebody holds or leads with it from now on.
    pub(in crate::machine) fn hold(&mut self, now: Instant) {
        self.early_from = Some(now + FIRST_MOMENTS);
    }

    /// Nobody does any longer.
    pub(in crate::machine) fn let_go(&mut self) {
        self.early_from = None;
    }

    /// Consul said elsewhere that it knows no such session.
    pub(in crate::machine) fn found_gone(&mut self) {
        if let State::Live(id, _) = &self.state {
            self.state = State::Gone(Some(id.clone()));
            self.retry_at = None;
        }
    }

    /// Nothing needs the session any more: destroys it.
    pub(in crate::machine) fn end(&mut self) {
        self.let_go();
        self.retry_at = None;
        self.failure = None;
        self.backoff.reset();
        self.unconfirmed.clear();
        self.unconfirmed_since = None;
        self.missing = None;
        self.state = match core::mem::replace(&mut self.state, State::Ended) {
            // It may still exist: somebody may have deleted only its contender key.
            State::Live(id, _) | State::Gone(Some(id)) if !is_on(Defect::SessionLeftBehind) => {
                State::Destroying(id)
            }
            State::Destroying(id) => State::Destroying(id),
            _ => State::Ended,
        };
    }

    /// Gives its destruction up: the TTL ends it.
    pub(in crate::machine) fn abandon(&mut self) {
        self.state = State::Ended;
        self.retry_at = None;
    }

    /// The request that is due.
    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        settings: &SessionSettings,
    ) -> Option<(u32, Request)> {
        if !self.is_due(now) {
            return None;
        }
        let scope = &settings.scope;
        let inquires = self.inquire_at().is_some_and(|at| at <= now);
        let (sent, request) = match &self.state {
            State::Creating => {
                let options = settings.options();
                (Purpose::Creation, CreateSession { options }.request(scope))
            }
            State::Registering => {
                let node = settings.own_node()?;
                (Purpose::Registration, RegisterNode { node }.request(scope))
            }
            State::Live(session, _) if inquires => {
                let request = SessionInfo { session }.request(scope);
                (Purpose::Inquiry, request.with_priority(Priority::Renewal))
            }
            State::Live(session, _) => (Purpose::Renewal, RenewSession { session }.request(scope)),
            State::Destroying(session) => (
                Purpose::Destruction,
                DestroySession { session }.request(scope),
            ),
            State::Gone(_) | State::Ended => return None,
        };
        if matches!(sent, Purpose::Creation | Purpose::Renewal) {
            self.renewed_at = now;
        }
        let is_free = |no: &u32| self.in_flight.iter().all(|it| it.no != *no);
        let no = (0..=u32::MAX).find(is_free).unwrap_or(u32::MAX);
        let sent_at = now;
        self.in_flight.push(InFlight { no, sent, sent_at });
        self.retry_at = None;
        Some((no, request))
    }

    /// Takes the answer to a request under way. `belief` is what makes a renewal count now.
    pub(in crate::machine) fn handle(
        &mut self,
        now: Instant,
        no: u32,
        answer: Result<&Response, RequestError>,
        belief: Belief,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        let Some(at) = self.in_flight.iter().position(|it| it.no == no) else {
            return;
        };
        let InFlight { sent, sent_at, .. } = self.in_flight.remove(at);
        self.belief = belief;
        match &answer {
            Ok(_) => {
                let took = now.saturating_since(sent_at);
                self.latency.answered(took, settings.request_timeout());
                self.silent_since = None;
            }
            Err(RequestError::Transport(error)) if error.kind() == TransportErrorKind::Timeout => {
                if self.has_lived_since(sent_at) {
                    return;
                }
                self.latency.timed_out();
                self.silent_since.get_or_insert(now);
            }
            Err(_) => {}
        }
        let sent_at = if is_on(Defect::LeaseFromAnswer) {
            now
        } else {
            sent_at
        };
        let outcome = match (sent, &self.state) {
            (Purpose::Creation, State::Creating) => {
                let lease = Lease::new(sent_at, settings.ttl(), rng);
                answer
                    .and_then(CreateSession::parse)
                    .map(|id| State::Live(id, lease))
                    .map_err(|error| settings.refused_creation(error))
            }
            (Purpose::Registration, State::Registering) => {
                let node = settings.own_node().unwrap_or_default();
                answer
                    .and_then(|response| RegisterNode { node }.parse(response))
                    .map(|()| State::Creating)
            }
            (Purpose::Renewal, State::Live(id, _)) => {
                answer.and_then(RenewSession::parse).map(|renewed| {
                    let lease = Lease::new(sent_at, settings.lease(renewed), rng);
                    State::Live(id.clone(), lease)
                })
            }
            (Purpose::Inquiry, State::Live(..)) => {
                return self.handle_inquiry(now, sent_at, answer, settings, rng);
            }
            (Purpose::Destruction, State::Destroying(_)) => answer
                .and_then(DestroySession::parse)
                .map(|()| State::Ended),
            _ => return,
        };
        match outcome {
            Ok(State::Live(id, lease)) if self.must_be_confirmed(now) => {
                self.await_confirmation(now, lease);
                self.confirm(id);
            }
            Ok(State::Live(id, lease)) => self.renewed(id, lease),
            // The node may be missing again. Then the next attempt comes later than the last.
            Ok(State::Creating) => {
                self.state = State::Creating;
                self.failure = None;
            }
            Err(error)
                if matches!(sent, Purpose::Creation)
                    && settings.missing_own_node(&error).is_some() =>
            {
                self.state = State::Registering;
                self.rest(now, settings, rng);
            }
            Ok(state) => {
                self.state = state;
                self.failure = None;
                self.backoff.reset();
            }
            Err(RequestError::InvalidSession { .. })
                if matches!(sent, Purpose::Renewal) && !is_on(Defect::MissingSessionBelieved) =>
            {
                self.missing = Some(now);
                self.failure = None;
            }
            Err(RequestError::InvalidSession { .. }) => self.handle_gone(),
            Err(_) if self.is_live() && is_on(Defect::TransientTakenForLoss) => self.handle_gone(),
            Err(error) => {
                self.failure = Some(error);
                self.rest(now, settings, rng);
                if self.is_live() && is_on(Defect::RenewalStoppedAfterTransient) {
                    self.retry_at = Some(now + settings.ttl());
                }
            }
        }
    }

    /// This lease counts when the leader has confirmed it.
    fn await_confirmation(&mut self, now: Instant, lease: Lease) {
        self.unconfirmed_since.get_or_insert(now);
        let later = self.unconfirmed.partition_point(|it| !it.is_after(&lease));
        self.unconfirmed.insert(later, lease);
        let excess = self.unconfirmed.len().saturating_sub(MOST_UNCONFIRMED);
        self.unconfirmed.drain(..excess);
        self.failure = None;
        // Somebody may hold soon: the leader is asked at once, even if an earlier question has just
        // failed. A holder's next question comes soon enough.
        if self.early_from.is_none() {
            self.retry_at = None;
        }
    }

    /// Agents leave out what a token may not see, and most do not say so, but they tell everybody
    /// that a session to be renewed does not exist (`docs/CONSUL.md`). So an absence here counts only
    /// after a renewal has said the same, and a renewal settles it otherwise. If nobody may ask the
    /// leader, the renewal alone counts.
    fn handle_inquiry(
        &mut self,
        now: Instant,
        sent_at: Instant,
        answer: Result<&Response, RequestError>,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        // A session that was left out of the answer exists.
        let is_left_out = answer.as_ref().is_ok_and(|response| is_filtered(response));
        match answer.and_then(SessionInfo::parse) {
            Ok(None) if self.missing.is_some() => self.handle_gone(),
            Ok(None) => {
                self.missing = None;
                self.unconfirmed.clear();
                self.unconfirmed_since = None;
                self.rest(now, settings, rng);
            }
            Err(RequestError::Denied { .. }) if self.missing.is_some() && !is_left_out => {
                self.handle_gone();
            }
            Ok(Some(_)) => {
                self.failure = None;
                if self.missing.is_some_and(|since| since <= sent_at) {
                    self.missing = None;
                    self.rest(now, settings, rng);
                }
                self.known_at = self.known_at.max(sent_at);
                if let Some(id) = self.id().cloned() {
                    self.confirm(id);
                }
            }
            Err(error) => {
                self.failure = Some(error);
                self.rest_after_inquiry(now, settings, rng);
            }
        }
    }

    /// A renewal's lease counts if the leader knew the session at any time after the renewal was
    /// sent, whichever server answered it. If the session ends later, its lock delay lasts as long
    /// as the belief.
    fn confirm(&mut self, id: SessionId) {
        let known_at = self.known_at;
        let confirmed = self
            .unconfirmed
            .partition_point(|it| it.sent_at() <= known_at);
        let newest = self.unconfirmed.drain(..confirmed).next_back();
        if self.unconfirmed.is_empty() {
            self.unconfirmed_since = None;
        }
        if let Some(lease) = newest {
            self.renewed(id, lease);
        }
    }

    /// It has this lease, unless it has one that was requested later.
    fn renewed(&mut self, id: SessionId, lease: Lease) {
        self.failure = None;
        self.backoff.reset();
        let is_older = self.lease().is_some_and(|it| it.is_after(&lease));
        if !is_older {
            self.state = State::Live(id, lease);
        }
    }

    /// A waiter only has to renew in time: Consul ties no key to an ended session.
    fn must_be_confirmed(&self, now: Instant) -> bool {
        let has_lapsed = self.lease().is_some_and(|lease| !lease.is_valid(now));
        let must = has_lapsed || self.is_live() && self.belief == Belief::Confirmed;
        must && !is_on(Defect::RenewalUnconfirmed)
    }

    /// Whether a request that was sent later has shown that it lives. Then one that gets no answer
    /// was lost, and Consul answers again.
    fn has_lived_since(&self, sent_at: Instant) -> bool {
        let lease = self.lease().map(Lease::sent_at);
        lease.is_some_and(|renewed| renewed.max(self.known_at) > sent_at)
    }

    fn is_live(&self) -> bool {
        matches!(self.state, State::Live(..))
    }

    fn handle_gone(&mut self) {
        self.failure = None;
        self.state = match core::mem::replace(&mut self.state, State::Ended) {
            State::Live(id, _) => State::Gone(Some(id)),
            State::Creating | State::Registering | State::Gone(None) => State::Gone(None),
            State::Gone(id) => State::Gone(id),
            State::Destroying(_) | State::Ended => State::Ended,
        };
    }
}

#[cfg(test)]
mod tests;
