//! One shared session, its users, and how long it is useful.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::agenda::{Asks, Listed, Rank, Turn};
use crate::defect::{Defect, is_on};
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::{Life, Rest, Shown};
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::session::Session;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{Place, Tenant};
use crate::time::Instant;

/// A session and its users.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) session: Session,
    pub(super) tenants: BTreeMap<Place, Tenant>,
    /// The users that are not leaving. It is renewed for them.
    pub(super) staying: BTreeSet<Tenant>,
    /// The users of which nothing is left except what may come late.
    pub(super) settling: BTreeSet<Tenant>,
    pub(super) holders: BTreeSet<Tenant>,
    pub(super) use_for: UseFor,
    /// What it had at a place, which matters as long as the session lives.
    former_terms: BTreeMap<Place, FormerTerm>,
    pub(super) usage: Usage,
    /// What its users know.
    pub(super) told: Shown,
    pub(super) listed: Listed,
}

/// Who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseFor {
    Anybody,
    /// Only its present users: a former one may have left something on it.
    Present,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Usage {
    Used,
    /// Another turn may come until then.
    Unused(Instant),
    /// It is destroyed, or Consul has expired it by then.
    Ending(Instant),
}

/// What it had in an election.
#[derive(Clone, Copy, Debug)]
enum FormerTerm {
    Last(Past),
    /// Its terms are counted again there, so a name could be used twice.
    Spent,
}

/// The most elections in which one session leads. After that nobody new uses it, so that its memory
/// doesn't grow forever.
const MOST_TERMS: usize = 20_000;

impl Shared {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        Self {
            session: Session::new(settings),
            tenants: BTreeMap::new(),
            staying: BTreeSet::new(),
            settling: BTreeSet::new(),
            holders: BTreeSet::new(),
            use_for: UseFor::Anybody,
            former_terms: BTreeMap::new(),
            usage: Usage::Used,
            told: Shown::default(),
            listed: Listed::default(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Whether another user at this place may use it.
    pub(super) fn is_free_at(&self, place: &Place, now: Instant) -> bool {
        let is_lasting = !self.session.is_gone() && !self.session.is_ending();
        let is_lasting = is_lasting && self.use_for == UseFor::Anybody;
        // If nobody needed it, it was not renewed. A hold that begins late in the lease could end
        // before a renewal is answered.
        let is_fresh = |lease: &Lease| lease.is_fresh(now);
        let is_kept = !self.staying.is_empty() || self.session.lease().is_none_or(is_fresh);
        let is_taken = self.tenants.contains_key(place) && !is_on(Defect::LentTwiceAtAPlace);
        let is_spent = matches!(self.former_terms.get(place), Some(FormerTerm::Spent));
        is_lasting && is_kept && !is_taken && !is_spent
    }

    /// Remembers what an ended turn had at this place.
    pub(super) fn remember(&mut self, place: &Place, past: Past, rest: Rest) {
        let place = Arc::clone(place);
        match past {
            _ if rest == Rest::Place => {
                self.former_terms.insert(place, FormerTerm::Spent);
            }
            Past::Nothing => {}
            Past::Term(_) => {
                self.former_terms.insert(place, FormerTerm::Last(past));
            }
        }
        if self.former_terms.len() >= MOST_TERMS {
            self.use_for = UseFor::Present;
        }
    }

    /// What it had at this place.
    pub(super) fn past_at(&self, place: &Place) -> Past {
        match self.former_terms.get(place) {
            Some(FormerTerm::Last(past)) => *past,
            _ => Past::Nothing,
        }
    }

    /// A user that was leaving continues.
    pub(super) fn stay(&mut self, tenant: Tenant) {
        self.settling.remove(&tenant);
        self.staying.insert(tenant);
    }

    /// Whether it needs renewals.
    pub(super) fn is_needed(&self) -> bool {
        !self.staying.is_empty() || self.session.is_ending()
    }

    pub(super) fn let_go(&mut self, tenant: Tenant) {
        if self.holders.remove(&tenant) && self.holders.is_empty() {
            self.session.let_go();
        }
    }

    pub(super) fn shown(&self) -> Shown {
        Shown {
            life: match self.session.id() {
                id if self.session.is_gone() => Life::Gone(id.cloned()),
                Some(id) => Life::Lives(id.clone(), self.session.lease().copied()),
                None => Life::Ahead,
            },
            lock_delay: self.session.lock_delay(),
            failure: self.session.failure().cloned(),
            past: Past::Nothing,
        }
    }

    /// The news for its users.
    pub(super) fn news(&mut self, is_heard: bool) -> Vec<(Tenant, Shown)> {
        let shown = self.shown();
        if !is_heard && !shown.differs_from(&self.told) {
            return Vec::new();
        }
        self.told = shown.clone();
        let tenants = self.tenants.values();
        tenants.map(|tenant| (*tenant, shown.clone())).collect()
    }

    /// The last news for its settling users, after it has ended.
    pub(super) fn last_news(&self) -> impl Iterator<Item = (Tenant, Shown)> {
        let id = match &self.told.life {
            Life::Ahead => None,
            Life::Lives(id, _) => Some(id),
            Life::Gone(id) => id.as_ref(),
        };
        let shown = Shown {
            life: Life::Gone(id.cloned()),
            failure: None,
            ..self.told.clone()
        };
        let tenants = self.tenants.values();
        tenants.map(move |tenant| (*tenant, shown.clone()))
    }

    /// An unused session is kept for a moment, if it may be used again.
    pub(super) fn end_unless_used(
        &mut self,
        now: Instant,
        kept: Duration,
        settings: &SessionSettings,
    ) {
        if let Usage::Ending(until) = self.usage {
            if until <= now {
                self.session.abandon();
            }
            return;
        }
        let is_settling = self.settling.len() == self.tenants.len();
        if !is_settling || is_on(Defect::SessionKeptForLateKeys) && !self.tenants.is_empty() {
            self.usage = Usage::Used;
            return;
        }
        // It must be there before it can be destroyed.
        if self.session.is_being_created() {
            return;
        }
        if !self.tenants.is_empty() {
            self.use_for = UseFor::Present;
        }
        let until = match self.usage {
            Usage::Unused(until) => until.min(now + kept),
            Usage::Used | Usage::Ending(_) => now + kept,
        };
        self.usage = Usage::Unused(until);
        let is_reusable = self.session.is_reusable() && self.use_for == UseFor::Anybody;
        if !is_reusable || until <= now {
            self.session.end();
            self.usage = Usage::Ending(now + settings.cleanup_time());
        }
    }

    /// A place where somebody holds with it.
    pub(super) fn held_place(&self) -> Option<&Place> {
        let mut tenants = self.tenants.iter();
        let held = tenants.find(|(_, tenant)| self.holders.contains(tenant));
        held.map(|(place, _)| place)
    }

    /// What the pool must know.
    pub(super) fn agenda(&self) -> Listed {
        Listed {
            rank: if self.is_held() {
                Rank::Held {
                    turn: if self.session.is_asked() {
                        Turn::Next
                    } else {
                        Turn::First
                    },
                    deadline: self.session.lease().map(Lease::deadline),
                }
            } else if self.session.wants_creation() {
                Rank::New
            } else {
                Rank::Other
            },
            asks: if self.is_needed() && self.session.awaits_confirmation() {
                Asks::WithOthers
            } else {
                Asks::Alone
            },
            due_at: self.session.timeout().filter(|_| self.is_needed()),
            ends_at: match self.usage {
                Usage::Used => None,
                Usage::Unused(until) | Usage::Ending(until) => Some(until),
            },
        }
    }
}
