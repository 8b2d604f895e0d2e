//! One session, what stands on it, and how long it is of use.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::{Belief, Life, Shown};
use crate::machine::process::tenancy::session::Session;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{Place, Tenant};
use crate::time::Instant;

/// A session, and what stands on it.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) session: Session,
    pub(super) tenants: BTreeMap<Place, Tenant>,
    /// Those of them that are not on their way out, for whom it is renewed.
    pub(super) staying: BTreeSet<Tenant>,
    /// Those of which nothing is left but what may come late.
    pub(super) settling: BTreeSet<Tenant>,
    pub(super) holders: BTreeSet<Tenant>,
    pub(super) use_for: UseFor,
    /// When the last key was created that it had at a place, and until when a view may show that one.
    pub(super) formers: BTreeMap<Place, (Index, Instant)>,
    /// The most that anybody on it asks for.
    pub(super) belief: Belief,
    pub(super) usage: Usage,
    /// What its tenants know.
    pub(super) told: Shown,
    pub(super) listed: Times,
}

/// Who may stand on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseFor {
    Anybody,
    /// Those that do already: something may be left on it of one that did.
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

/// What it waits for, as the pool has it in its lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) due_at: Option<Instant>,
    pub(super) ends_at: Option<Instant>,
}

impl Shared {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        Self {
            session: Session::new(settings),
            tenants: BTreeMap::new(),
            staying: BTreeSet::new(),
            settling: BTreeSet::new(),
            holders: BTreeSet::new(),
            use_for: UseFor::Anybody,
            formers: BTreeMap::new(),
            belief: Belief::Answered,
            usage: Usage::Used,
            told: Shown::default(),
            listed: Times::default(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Whether one more may stand on it, of this place.
    pub(super) fn is_free_at(&self, place: &Place, now: Instant) -> bool {
        let is_lasting = !self.session.is_gone() && !self.session.is_ending();
        let is_lasting = is_lasting && self.use_for == UseFor::Anybody;
        // One that nobody needed was not renewed.
        let is_valid = |lease: &Lease| lease.is_valid(now);
        let is_kept = !self.staying.is_empty() || self.session.lease().is_none_or(is_valid);
        let is_taken = self.tenants.contains_key(place) && !is_on(Defect::LentTwiceAtAPlace);
        is_lasting && is_kept && !is_taken
    }

    /// Whether it is to be renewed, or ended.
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
            former: Index::ZERO,
        }
    }

    /// What its tenants have yet to learn.
    pub(super) fn news(&mut self, is_heard: bool) -> Vec<(Tenant, Shown)> {
        let shown = self.shown();
        if !is_heard && !shown.differs_from(&self.told) {
            return Vec::new();
        }
        self.told = shown.clone();
        let tenants = self.tenants.values();
        tenants.map(|tenant| (*tenant, shown.clone())).collect()
    }

    /// What its tenants, who settle, have yet to learn when it has ended.
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

    /// One that nothing stands on is kept for a moment, if it may be of use again.
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
        if !is_settling {
            self.usage = Usage::Used;
            return;
        }
        // It is waited for before it is destroyed.
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
            self.session.end(settings);
            self.usage = Usage::Ending(now + settings.cleanup_time());
        }
    }

    pub(super) fn times(&self) -> Times {
        Times {
            due_at: self.session.timeout().filter(|_| self.is_needed()),
            ends_at: match self.usage {
                Usage::Used => None,
                Usage::Unused(until) | Usage::Ending(until) => Some(until),
            },
        }
    }
}
