//! A shared session, as one of its users sees it.
//!
//! ```text
//!            lent                 renewed
//!  Wanted ─────────▶ Lent ──┐     ┌──┐
//!     │               │ └───┴─────┴──┘
//!     │               ├── gone, or doubted here ──▶ Gone
//!     ▼ returned      ▼                              │
//!  Returned ◀─────────┴──────────────────────────────┘
//! ```
//! It sends nothing: the [`Pool`](crate::machine::sessions::Pool) creates, renews and ends the session. Wishes
//! for the pool leave as a [`LoanWish`], and the pool's knowledge comes back as a [`LoanNews`].

use std::collections::VecDeque;

use core::time::Duration;

use crate::error::Lost;
use crate::error::RequestError;
use crate::id::SessionId;
use crate::machine::process::failed::Failed;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;
use crate::view::{Contender, Lock};

/// Identifies a loan of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoanNo(pub(in crate::machine) u64);

/// A machine's wish for the sessions that it shares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoanWish {
    pub(in crate::machine) loan: LoanNo,
    pub(in crate::machine) step: LoanStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum LoanStep {
    /// Lend a session that is not used at this place yet.
    Lend,
    /// Somebody holds with it.
    Hold,
    /// Nobody holds any longer.
    LetGo,
    /// A request that was sent then has proved that it lived at that time or later.
    Lived(Instant),
    /// The user leaves, and needs no more renewals.
    Leave,
    /// Another turn continues with it after all.
    Stay,
    /// Nothing of the user is left except what may come late, which the session's end would
    /// prevent.
    Settle,
    /// Consul said that there is no such session.
    Doubt,
    /// It is not needed any more.
    Return {
        /// What the session had at this place.
        past: Past,
        rest: Rest,
    },
}

/// What a turn leaves on its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Rest {
    Nothing,
    /// Nothing, but the next turn at this place needs another session.
    Place,
    /// A key may exist, or may still come.
    Key,
}

/// News of a lent session.
#[derive(Clone, Debug)]
pub struct LoanNews {
    pub(in crate::machine) loan: LoanNo,
    pub(in crate::machine) shown: Shown,
    /// What the last proof has shown.
    pub(in crate::machine) seen: Option<Seen>,
}

/// The record at the user's place.
#[derive(Clone, Debug)]
pub(in crate::machine) enum SeenRecord {
    /// It was read with the key of another user.
    Unread,
    Missing,
    There(Lock),
}

/// What a read that the majority confirmed has shown at the user's place.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Seen {
    pub(in crate::machine) sent_at: Instant,
    pub(in crate::machine) record: SeenRecord,
    /// The user's key, if it is tied to the session.
    pub(in crate::machine) key: Option<Contender>,
}

/// A session as its pool shows it.
#[derive(Clone, Debug, Default)]
pub(in crate::machine) struct Shown {
    pub(in crate::machine) life: Life,
    pub(in crate::machine) lock_delay: Duration,
    pub(in crate::machine) failed: Option<Failed>,
    /// What the session had at this place before.
    pub(in crate::machine) past: Past,
}

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(in crate::machine) enum Life {
    #[default]
    Ahead,
    Lives(SessionId, Option<Lease>),
    Gone(Option<SessionId>),
}

#[derive(Clone, Debug)]
pub(in crate::machine) struct Loan {
    state: State,
    lock_delay: Duration,
    failed: Option<Failed>,
    way: Way,
    wishes: VecDeque<LoanStep>,
}

/// How far its user has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Stays,
    Leaves,
    Settles,
}

#[derive(Clone, Debug)]
enum State {
    Wanted,
    Lent(SessionId, Option<Lease>),
    Gone(Option<SessionId>),
    Returned,
}

impl Loan {
    pub(in crate::machine) fn new(settings: &SessionSettings) -> Self {
        Self {
            state: State::Wanted,
            lock_delay: settings.lock_delay(),
            failed: None,
            way: Way::Stays,
            wishes: VecDeque::from([LoanStep::Lend]),
        }
    }

    pub(in crate::machine) fn id(&self) -> Option<&SessionId> {
        match &self.state {
            State::Lent(id, _) => Some(id),
            State::Gone(id) => id.as_ref(),
            State::Wanted | State::Returned => None,
        }
    }

    pub(in crate::machine) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Lent(_, lease) => lease.as_ref(),
            _ => None,
        }
    }

    /// What its holder loses when its lease is over.
    pub(in crate::machine) fn lease_expired(&self, now: Instant) -> Option<Lost> {
        let State::Lent(id, Some(lease)) = &self.state else {
            return None;
        };
        Some(lease.expired(now, id.clone(), self.failure()))
    }

    pub(in crate::machine) fn lock_delay(&self) -> Duration {
        self.lock_delay
    }

    /// The last request about it, if it has failed.
    pub(in crate::machine) fn failed(&self) -> Option<&Failed> {
        self.failed.as_ref()
    }

    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        self.failed().map(|failed| &failed.error)
    }

    pub(in crate::machine) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    pub(in crate::machine) fn is_returned(&self) -> bool {
        matches!(self.state, State::Returned)
    }

    pub(in crate::machine) fn hold(&mut self) {
        self.wishes.push_back(LoanStep::Hold);
    }

    pub(in crate::machine) fn let_go(&mut self) {
        if !self.is_returned() {
            self.wishes.push_back(LoanStep::LetGo);
        }
    }

    /// A request that was sent at `sent_at` has proved that it lived then or later.
    pub(in crate::machine) fn lived(&mut self, sent_at: Instant) {
        if let State::Lent(_, lease) = &mut self.state {
            if let Some(lease) = lease {
                lease.proved(sent_at);
            }
            self.wishes.push_back(LoanStep::Lived(sent_at));
        }
    }

    /// Its user leaves.
    pub(in crate::machine) fn leave(&mut self) {
        if !self.is_returned() && self.way == Way::Stays {
            self.way = Way::Leaves;
            self.wishes.push_back(LoanStep::Leave);
        }
    }

    /// Nothing of its user is left except what may come late.
    pub(in crate::machine) fn settles(&mut self) {
        if !self.is_returned() && self.way == Way::Leaves {
            self.way = Way::Settles;
            self.wishes.push_back(LoanStep::Settle);
        }
    }

    /// Something came late after all, and its user takes it away.
    pub(in crate::machine) fn comes_back(&mut self) {
        if !self.is_returned() && self.way == Way::Settles {
            self.way = Way::Leaves;
            self.wishes.push_back(LoanStep::Leave);
        }
    }

    /// Another turn continues with it. If the pool has ended it meanwhile, it says so.
    pub(in crate::machine) fn stay(&mut self) {
        if !self.is_returned() && self.way != Way::Stays {
            self.way = Way::Stays;
            // If the pool did not know yet, it would end the session for nothing.
            let is_of_way = |it: &LoanStep| matches!(it, LoanStep::Leave | LoanStep::Settle);
            self.wishes.retain(|it| !is_of_way(it));
            self.wishes.push_back(LoanStep::Stay);
        }
    }

    /// Consul said elsewhere that it knows no such session. That is checked again, since others use
    /// it.
    pub(in crate::machine) fn found_gone(&mut self) {
        if let State::Lent(id, _) = &self.state {
            self.state = State::Gone(Some(id.clone()));
            self.wishes.push_back(LoanStep::Doubt);
        }
    }

    /// It is no longer needed.
    pub(in crate::machine) fn give_back(&mut self, past: Past, rest: Rest) {
        if !self.is_returned() {
            self.state = State::Returned;
            self.failed = None;
            let step = LoanStep::Return { past, rest };
            self.wishes.push_back(step);
        }
    }

    /// Gives it back as it is: its end, or its TTL, does the rest.
    pub(in crate::machine) fn abandon(&mut self) {
        let is_unknown = self.id().is_none();
        let rest = if is_unknown { Rest::Nothing } else { Rest::Key };
        self.give_back(Past::Nothing, rest);
    }

    pub(in crate::machine) fn poll_wish(&mut self) -> Option<LoanStep> {
        self.wishes.pop_front()
    }

    /// What the pool knows of it now.
    pub(in crate::machine) fn learn(&mut self, shown: &Shown) {
        if !matches!(self.state, State::Wanted | State::Lent(..)) {
            return;
        }
        self.lock_delay = shown.lock_delay;
        self.failed.clone_from(&shown.failed);
        match &shown.life {
            Life::Ahead => {}
            Life::Lives(id, lease) => {
                let mut lease = *lease;
                // The pool may not have heard yet of our last proof.
                if let (Some(lease), Some(before)) = (&mut lease, self.lease()) {
                    lease.keep_proof(before);
                }
                self.state = State::Lent(id.clone(), lease);
            }
            Life::Gone(id) => self.state = State::Gone(id.clone()),
        }
    }
}
