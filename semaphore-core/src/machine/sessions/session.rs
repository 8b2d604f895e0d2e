//! The life of one session.
//!
//! ```text
//! Registering
//!     ▲ │ its node is there
//!     │ ▼     created                renewed: r
//! Creating ───────────▶ Live ──┬──┐
//!                        │ │   └──┘ a key of it was seen: p
//!                        │ └── unknown to Consul, and no key of it is seen ──▶ Gone
//!                        ▼ nothing needs it any more                            │
//!                    Destroying ◀───────────────────────────────────────────────┘
//!                        └──▶ Ended
//! ```
//! - A lost answer to a creation leaves a session that ends by its TTL.
//! - A waiter's session is renewed each T/4 to T/3, a holder's each T/16 to T/15, or
//!   sooner at the end of its lease ([`retry`]).
//! - An agent that says that there is no such session may be a new leader that has not applied its
//!   log. So the keys of its users are read with the majority's confirmation before it counts as
//!   gone ([`proofs`](super::proofs)). If none holds, no key need be tied: then one more renewal tells, now that
//!   the leader has answered a read.
//!
//! Sources: docs/PROTOCOL.md, rule 12; Consul's documentation of sessions (`TTL`, `LockDelay`;
//! `NodeChecks`, which end a session with its node's health unless the list is empty).

use core::time::Duration;

use super::retry;
use crate::api::{CreateSession, DestroySession, RegisterNode, RenewSession};
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::machine::process::failed::Failed;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Session {
    state: State,
    /// The requests under way: several renewals, and one of anything else.
    under_way: Vec<Asked>,
    /// When the last creation or renewal was sent.
    sent_at: Instant,
    /// When the next renewal follows it, as a part of its span.
    spread: Spread,
    /// After a failure, unless somebody holds with it.
    pause: Pause,
    /// The last request, if it has failed.
    failed: Option<Failed>,
    /// A user has not found its key: it is renewed at once.
    is_doubted: bool,
    /// Since when Consul says that there is no such session.
    unknown_since: Option<Instant>,
}

#[derive(Clone, Debug)]
enum State {
    Creating,
    Registering,
    Live(SessionId, Lease),
    Gone(SessionId),
    /// With the time of the first refusal.
    Destroying(SessionId, Option<Instant>),
    Ended,
}

/// A request under way. The state may have changed since it was sent.
#[derive(Clone, Copy, Debug)]
struct Asked {
    no: u32,
    what: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Creation,
    Registration,
    Renewal,
    Destruction,
}

/// What its users need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// They wait.
    Place,
    /// One holds. The least time between two renewals, since the process holds with many.
    Belief(Duration),
}

impl Need {
    fn slowed(self) -> Self {
        match self {
            Self::Belief(_) if is_on(Defect::RenewalInAThird) => Self::Place,
            _ => self,
        }
    }
}

/// Where in its span the next renewal comes: drawn again for each, so that sessions that began
/// together are not renewed together for ever.
#[derive(Clone, Copy, Debug)]
struct Spread(u32);

impl Spread {
    const WHOLE: u32 = 1024;

    fn new(rng: &mut fastrand::Rng) -> Self {
        Self(rng.u32(..Self::WHOLE))
    }

    fn between(self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least) / Self::WHOLE * self.0
    }
}

impl Session {
    /// One that is still to be created.
    pub(super) fn new(settings: &SessionSettings, rng: &mut fastrand::Rng) -> Self {
        Self {
            state: State::Creating,
            under_way: Vec::new(),
            sent_at: Instant::ORIGIN,
            spread: Spread::new(rng),
            pause: Pause::new(settings.request_timeout()),
            failed: None,
            is_doubted: false,
            unknown_since: None,
        }
    }

    /// The id, once it is known.
    pub(super) fn id(&self) -> Option<&SessionId> {
        match &self.state {
            State::Live(id, _) | State::Gone(id) | State::Destroying(id, _) => Some(id),
            State::Creating | State::Registering | State::Ended => None,
        }
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Live(_, lease) => Some(lease),
            _ => None,
        }
    }

    fn is_renewed_since(&self, sent_at: Instant) -> bool {
        self.lease().is_some_and(|it| it.renewed_at() > sent_at)
    }

    pub(super) fn failed(&self) -> Option<&Failed> {
        self.failed.as_ref()
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Whether [`Self::end`] was called.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state, State::Destroying(..) | State::Ended)
    }

    /// Whether nothing of it is left, and nothing may come.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended) && !self.is_being_created()
    }

    pub(super) fn wants_creation(&self) -> bool {
        matches!(self.state, State::Creating)
    }

    /// Whether an id may still arrive.
    pub(super) fn is_being_created(&self) -> bool {
        self.under_way.iter().any(|it| it.what == Purpose::Creation)
    }

    /// Whether this request under way creates it.
    pub(super) fn is_creation(&self, no: u32) -> bool {
        let mut all = self.under_way.iter();
        all.any(|it| it.no == no && it.what == Purpose::Creation)
    }

    /// Whether nobody says that there is no such session.
    pub(super) fn is_trusted(&self) -> bool {
        self.unknown_since.is_none() && !self.is_doubted
    }

    /// Whether another turn may use it later: it lives, as far as is known, and nothing fails.
    pub(super) fn is_sound(&self) -> bool {
        self.lease().is_some() && self.is_trusted() && self.failed.is_none()
    }

    /// Consul may know no such session: it is renewed at once.
    pub(super) fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// Whether the keys of its users must be read, to see whether it is gone.
    pub(super) fn unknown_since(&self) -> Option<Instant> {
        self.unknown_since.filter(|_| !self.is_doubted)
    }

    /// A read that the majority confirmed, or a write, was sent then, and found a key tied to it.
    pub(super) fn lived(&mut self, sent_at: Instant) {
        if let State::Live(_, lease) = &mut self.state {
            lease.proved(sent_at);
        }
        self.unknown_since.take_if(|since| *since <= sent_at);
    }

    /// Such a read found no key of it, or may not be had.
    pub(super) fn is_missed(&mut self, sent_at: Instant) {
        if self.unknown_since.is_some_and(|since| since <= sent_at) {
            self.vanish();
        }
    }

    /// Nobody uses it, so no key tells whether it lives.
    pub(super) fn is_unused(&mut self) {
        if self.unknown_since.is_some() {
            self.vanish();
        }
    }

    /// It is gone: no key is tied to it any more.
    fn vanish(&mut self) {
        self.failed = None;
        self.unknown_since = None;
        if let Some(id) = self.lease().and_then(|_| self.id()).cloned() {
            self.state = State::Gone(id);
        }
    }

    /// Nothing needs it any more.
    pub(super) fn end(&mut self) {
        self.failed = None;
        self.unknown_since = None;
        self.pause.reset();
        self.pause.end();
        self.state = match core::mem::replace(&mut self.state, State::Ended) {
            // A leader that has not applied its log calls a session gone that is there.
            State::Live(id, _) | State::Gone(id) | State::Destroying(id, _)
                if !is_on(Defect::SessionLeftBehind) =>
            {
                State::Destroying(id, None)
            }
            _ => State::Ended,
        };
    }

    /// When its next request is due.
    pub(super) fn due_at(&self, need: Need, settings: &SessionSettings) -> Option<Instant> {
        let is_waiting = || self.under_way.is_empty().then(|| self.pause.due());
        match &self.state {
            State::Creating | State::Registering | State::Destroying(..) => is_waiting(),
            State::Live(..) if need == Need::Nothing => None,
            State::Live(..) if self.is_doubted => is_waiting(),
            State::Live(..) if self.unknown_since.is_some() => None,
            State::Live(_, lease) => {
                let whole = settings.proved_time();
                let need = need.slowed();
                let Need::Belief(apart) = need else {
                    let next = self.sent_at + self.spread.between(whole / 4, whole / 3);
                    return is_waiting().map(|at| match self.failed {
                        Some(_) => at,
                        None => next,
                    });
                };
                if is_on(Defect::RenewalsInTurn) && !self.under_way.is_empty() {
                    return None;
                }
                if is_on(Defect::RenewalStoppedAfterTransient) && self.failed.is_some() {
                    return Some(self.sent_at + settings.ttl());
                }
                let left = lease.kept_until().saturating_since(self.sent_at);
                let every = self.spread.between(whole / 16, whole / 15);
                let every = every.min(retry::follows_within(left, settings));
                Some(self.sent_at + every.max(apart))
            }
            State::Gone(_) | State::Ended => None,
        }
    }

    /// The request that is due, with its number.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<(u32, Request)> {
        let scope = &settings.scope;
        let (what, request) = match &self.state {
            State::Creating => {
                let options = settings.options();
                (Purpose::Creation, CreateSession { options }.request(scope))
            }
            State::Registering => {
                let node = settings.own_node()?;
                (Purpose::Registration, RegisterNode { node }.request(scope))
            }
            State::Live(session, _) => (Purpose::Renewal, RenewSession { session }.request(scope)),
            State::Destroying(session, _) => (
                Purpose::Destruction,
                DestroySession { session }.request(scope),
            ),
            State::Gone(_) | State::Ended => return None,
        };
        if matches!(what, Purpose::Creation | Purpose::Renewal) {
            self.sent_at = now;
            self.spread = Spread::new(rng);
        }
        let last = self.under_way.last().map_or(0, |it| it.no);
        let no = last.wrapping_add(1);
        self.under_way.push(Asked { no, what });
        self.pause.end();
        Some((no, request))
    }

    /// Whether its destruction is refused, was so at the last attempts, too, and the TTL is over. (A process
    /// that stood still begins to end its session after that.)
    fn is_refused_for_good(
        &mut self,
        now: Instant,
        error: &RequestError,
        settings: &SessionSettings,
    ) -> bool {
        let State::Destroying(_, refused_since) = &mut self.state else {
            return false;
        };
        let is_over = self.sent_at + settings.ttl() * 2 <= now;
        let is_long = |since: Instant| since + settings.retry_cap() <= now;
        error.is_permanent()
            || error.is_refusal() && is_long(*refused_since.get_or_insert(now)) && is_over
    }

    /// Takes the answer to a request under way.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        (no, sent_at): (u32, Instant),
        answer: Result<&Response, RequestError>,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        let Some(at) = self.under_way.iter().position(|it| it.no == no) else {
            return;
        };
        let Asked { what, .. } = self.under_way.remove(at);
        let outcome = match (what, &mut self.state) {
            (Purpose::Creation, State::Creating) => answer
                .and_then(CreateSession::parse)
                .map(|id| Some(State::Live(id, Lease::new(sent_at, settings.ttl()))))
                .map_err(|error| settings.refused_creation(error)),
            (Purpose::Registration, State::Registering) => {
                let node = settings.own_node().unwrap_or_default();
                let answer = answer.and_then(|response| RegisterNode { node }.parse(response));
                answer.map(|()| Some(State::Creating))
            }
            (Purpose::Renewal, State::Live(_, lease)) => {
                let renewed = answer.and_then(RenewSession::parse);
                renewed.map(|renewed| {
                    self.unknown_since.take_if(|since| *since <= sent_at);
                    lease.renewed(sent_at, settings.lease(renewed));
                    None
                })
            }
            (Purpose::Destruction, State::Destroying(..)) => answer
                .and_then(DestroySession::parse)
                .map(|()| Some(State::Ended)),
            _ => return,
        };
        if what == Purpose::Renewal {
            self.is_doubted = false;
        }
        match outcome {
            Ok(next) => {
                // After its node was registered, a creation that fails again comes later than the
                // last.
                if what != Purpose::Registration {
                    self.pause.reset();
                }
                self.failed = None;
                if let Some(next) = next {
                    self.state = next;
                }
            }
            Err(RequestError::InvalidSession { .. }) if what == Purpose::Renewal => {
                self.failed = None;
                let since = *self.unknown_since.get_or_insert(now);
                // While keys tell, no renewals follow.
                if since < sent_at {
                    self.vanish();
                }
                if is_on(Defect::MissingSessionBelieved) {
                    self.vanish();
                }
            }
            Err(_) if self.lease().is_some() && is_on(Defect::TransientTakenForLoss) => {
                self.vanish();
            }
            // The TTL ends what may not be destroyed.
            Err(error)
                if what == Purpose::Destruction
                    && self.is_refused_for_good(now, &error, settings) =>
            {
                self.state = State::Ended;
            }
            // A later one was answered.
            Err(_) if what == Purpose::Renewal && self.is_renewed_since(sent_at) => {}
            Err(error) => {
                if what == Purpose::Creation && settings.missing_own_node(&error).is_some() {
                    self.state = State::Registering;
                } else {
                    self.failed = Some(Failed { sent_at, error });
                }
                self.pause.begin(now, rng);
            }
        }
    }
}
