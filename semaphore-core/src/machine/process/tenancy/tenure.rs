//! The session of a contender or a candidacy: its own, or one that the process shares.

use crate::error::{Lost, RequestError};
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::{Belief, Loan, LoanStep, Rest, Shown};
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::session::Session;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) enum Tenure {
    Own(Session),
    Shared(Loan),
}

impl Tenure {
    /// A session of the pool, or a separate one.
    pub(in crate::machine) fn new(settings: &SessionSettings) -> Self {
        if settings.shares_sessions() {
            Self::Shared(Loan::new(settings))
        } else {
            Self::separate(settings)
        }
    }

    /// A separate session, which others of the process do not share.
    pub(in crate::machine) fn separate(settings: &SessionSettings) -> Self {
        Self::Own(Session::new(settings))
    }

    /// Whether it lives on after this turn, since others use it or may.
    pub(in crate::machine) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    fn own(&self) -> Option<&Session> {
        match self {
            Self::Own(session) => Some(session),
            Self::Shared(_) => None,
        }
    }

    fn shared_mut(&mut self) -> Option<&mut Loan> {
        match self {
            Self::Own(_) => None,
            Self::Shared(loan) => Some(loan),
        }
    }

    pub(in crate::machine) fn id(&self) -> Option<&SessionId> {
        match self {
            Self::Own(session) => session.id(),
            Self::Shared(loan) => loan.id(),
        }
    }

    pub(in crate::machine) fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Own(session) => session.lease(),
            Self::Shared(loan) => loan.lease(),
        }
    }

    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        match self {
            Self::Own(session) => session.failure(),
            Self::Shared(loan) => loan.failure(),
        }
    }

    pub(in crate::machine) fn is_gone(&self) -> bool {
        match self {
            Self::Own(session) => session.is_gone(),
            Self::Shared(loan) => loan.is_gone(),
        }
    }

    pub(in crate::machine) fn has_ended(&self) -> bool {
        match self {
            Self::Own(session) => session.has_ended(),
            Self::Shared(loan) => loan.is_returned(),
        }
    }

    pub(in crate::machine) fn is_ending(&self) -> bool {
        match self {
            Self::Own(session) => session.is_ending(),
            Self::Shared(loan) => loan.is_returned(),
        }
    }

    /// What its holder loses when its lease is over.
    pub(in crate::machine) fn lease_expired(&self, now: Instant) -> Option<Lost> {
        match self {
            Self::Own(session) => session.lease_expired(now),
            Self::Shared(loan) => loan.lease_expired(now),
        }
    }

    pub(in crate::machine) fn is_being_created(&self) -> bool {
        self.own().is_some_and(Session::is_being_created)
    }

    pub(in crate::machine) fn wants_creation(&self) -> bool {
        self.own().is_some_and(Session::wants_creation)
    }

    pub(in crate::machine) fn is_creation(&self, no: u32) -> bool {
        self.own().is_some_and(|session| session.is_creation(no))
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        self.own().and_then(Session::timeout)
    }

    /// A read that the leader confirmed, or a write, was sent then, and found its key tied to it.
    pub(in crate::machine) fn lived(&mut self, sent_at: Instant) {
        if let Some(loan) = self.shared_mut() {
            loan.lived(sent_at);
        }
    }

    pub(in crate::machine) fn hold(&mut self, now: Instant) {
        match self {
            Self::Own(session) => session.hold(now),
            Self::Shared(loan) => loan.hold(),
        }
    }

    pub(in crate::machine) fn let_go(&mut self) {
        match self {
            Self::Own(session) => session.let_go(),
            Self::Shared(loan) => loan.let_go(),
        }
    }

    /// Its user leaves. A session of its own need not be told.
    pub(in crate::machine) fn leave(&mut self) {
        match self {
            Self::Own(session) => session.let_go(),
            Self::Shared(loan) => loan.leave(),
        }
    }

    /// Nothing else of this turn is left except what may come late, while the session lives.
    pub(in crate::machine) fn settles(&mut self) {
        if let Some(loan) = self.shared_mut() {
            loan.settles();
        }
    }

    /// Another turn of the same machine continues with it.
    pub(in crate::machine) fn stay(&mut self) {
        if let Some(loan) = self.shared_mut() {
            loan.stay();
        }
    }

    pub(in crate::machine) fn found_gone(&mut self) {
        match self {
            Self::Own(session) => session.found_gone(),
            Self::Shared(loan) => loan.found_gone(),
        }
    }

    /// Nothing else of this turn is left. A session of its own is destroyed. A shared one goes
    /// back, with what is known about the turn.
    pub(in crate::machine) fn end(&mut self, past: Past, rest: Rest) {
        match self {
            Self::Own(session) => session.end(),
            Self::Shared(loan) => loan.give_back(past, rest),
        }
    }

    /// Gives it up as it is: its TTL does the rest.
    pub(in crate::machine) fn abandon(&mut self) {
        match self {
            Self::Own(session) => session.abandon(),
            Self::Shared(loan) if loan.id().is_none() => {
                loan.give_back(Past::Nothing, Rest::Nothing);
            }
            Self::Shared(loan) => loan.give_back(Past::Nothing, Rest::Key),
        }
    }

    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        settings: &SessionSettings,
    ) -> Option<(u32, Request)> {
        match self {
            Self::Own(session) => session.transmit(now, settings),
            Self::Shared(_) => None,
        }
    }

    pub(in crate::machine) fn handle(
        &mut self,
        now: Instant,
        no: u32,
        answer: Result<&Response, RequestError>,
        belief: Belief,
        settings: &SessionSettings,
        rng: &mut fastrand::Rng,
    ) {
        if let Self::Own(session) = self {
            session.handle(now, no, answer, belief, settings, rng);
        }
    }

    /// The next wish for the pool.
    pub(in crate::machine) fn poll_wish(&mut self) -> Option<LoanStep> {
        self.shared_mut()?.poll_wish()
    }

    /// Takes the pool's knowledge.
    pub(in crate::machine) fn learn(&mut self, shown: &Shown) {
        if let Some(loan) = self.shared_mut() {
            loan.learn(shown);
        }
    }
}
