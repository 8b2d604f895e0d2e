//! One session, its users, and how long it is useful.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::agenda::Listed;
use super::retry;
use super::session::{Need, Session};
use super::terms::FormerTerms;
use crate::defect::{Defect, is_on};
use crate::machine::process::failed::Failed;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::{Life, Shown};
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{Place, Tenant, election_at};
use crate::time::Instant;

/// A session and its users.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) session: Session,
    places: BTreeSet<Place>,
    users: BTreeMap<Tenant, Stance>,
    /// How many of them have each stance.
    stances: [usize; 4],
    /// A former user may have left something on it: nobody new uses it, and its end removes that.
    pub(super) is_retired: bool,
    pub(super) terms: FormerTerms,
    /// The last proof, if it has failed.
    pub(super) unproved: Option<Failed>,
    /// What its users know.
    told: Shown,
    pub(super) listed: Listed,
}

/// What a user needs it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stance {
    Holds,
    Waits,
    /// It is not renewed for this one.
    Leaves,
    /// Nothing of this one is left except what may come late, which the session's end would prevent.
    Settles,
}

impl Shared {
    pub(super) fn new(settings: &SessionSettings, rng: &mut fastrand::Rng) -> Self {
        Self {
            session: Session::new(settings, rng),
            places: BTreeSet::new(),
            users: BTreeMap::new(),
            stances: [0; 4],
            is_retired: false,
            terms: FormerTerms::default(),
            unproved: None,
            told: Shown {
                lock_delay: settings.lock_delay(),
                ..Shown::default()
            },
            listed: Listed::default(),
        }
    }

    /// A user comes.
    pub(super) fn lend(&mut self, place: Place, tenant: Tenant) {
        self.places.insert(place);
        self.stand(tenant, Some(Stance::Waits));
    }

    /// A user has left.
    pub(super) fn part_with(&mut self, place: &Place, tenant: Tenant) {
        self.places.remove(place);
        self.stand(tenant, None);
    }

    /// What a user needs it for from now on; `None` for one that has left.
    pub(super) fn stand(&mut self, tenant: Tenant, stance: Option<Stance>) {
        let before = match stance {
            Some(stance) => self.users.insert(tenant, stance),
            None => self.users.remove(&tenant),
        };
        if let Some(before) = before {
            self.stances[before as usize] -= 1;
        }
        if let Some(stance) = stance {
            self.stances[stance as usize] += 1;
        }
    }

    pub(super) fn stance(&self, tenant: Tenant) -> Option<Stance> {
        self.users.get(&tenant).copied()
    }

    fn count(&self, stance: Stance) -> usize {
        self.stances[stance as usize]
    }

    pub(super) fn is_held(&self) -> bool {
        self.count(Stance::Holds) > 0
    }

    /// Whether somebody needs it to live on.
    fn is_kept(&self) -> bool {
        self.is_held() || self.count(Stance::Waits) > 0
    }

    pub(super) fn users(&self) -> impl Iterator<Item = Tenant> {
        self.users.keys().copied()
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = Tenant> {
        let users = self.users.iter();
        let holds = |(_, stance): &(&Tenant, &Stance)| **stance == Stance::Holds;
        users.filter(holds).map(|(tenant, _)| *tenant)
    }

    /// Whether it is one of elections.
    pub(super) fn leads(&self) -> bool {
        self.places
            .first()
            .is_some_and(|it| election_at(it).is_some())
    }

    /// Whether its end is on its way, and has failed so far.
    pub(super) fn is_held_up(&self) -> bool {
        let last = self.session.failed();
        self.session.is_ending() && last.is_some_and(|failed| failed.error.is_refusal())
    }

    /// Whether another user at this place may use it.
    pub(super) fn is_free_at(&self, place: &Place, now: Instant) -> bool {
        let is_lasting = !self.session.is_gone() && !self.session.is_ending() && !self.is_retired;
        // If nobody needed it, it was not renewed. A hold that begins late in the lease could end
        // before a renewal is answered.
        let is_fresh = |lease: &Lease| lease.is_fresh(now);
        let is_kept = self.is_kept() || self.session.lease().is_none_or(is_fresh);
        let is_taken = self.places.contains(place) && !is_on(Defect::LentTwiceAtAPlace);
        let is_taken = is_taken || self.terms.is_spent_at(place);
        is_lasting && is_kept && !is_taken && self.session.is_trusted()
    }

    fn need(&self, held: usize, whole: Duration) -> Need {
        if self.is_held() {
            Need::Belief(spacing(held, whole))
        } else if self.is_kept() {
            Need::Place
        } else {
            Need::Nothing
        }
    }

    /// How long the answer to its renewal is waited for, while somebody holds.
    pub(super) fn waits_for(
        &self,
        now: Instant,
        took: Duration,
        settings: &SessionSettings,
    ) -> Option<Duration> {
        let lease = self.session.lease().filter(|_| self.is_held())?;
        let left = lease.kept_until().saturating_since(now);
        Some(retry::waits_for(left, took, settings))
    }

    pub(super) fn shown(&self) -> Shown {
        Shown {
            life: match self.session.id() {
                id if self.session.is_gone() => Life::Gone(id.cloned()),
                Some(id) => Life::Lives(id.clone(), self.session.lease().copied()),
                None => Life::Ahead,
            },
            lock_delay: self.told.lock_delay,
            failed: self.session.failed().or(self.unproved.as_ref()).cloned(),
            past: Past::Nothing,
        }
    }

    /// The news for its users, if there are any.
    pub(super) fn news(&mut self) -> Vec<(Tenant, Shown)> {
        if self.session.is_ending() {
            return Vec::new();
        }
        let shown = self.shown();
        // A renewal and its proof extend the belief once.
        let is_same = match (&shown.life, &self.told.life) {
            (Life::Lives(_, Some(now)), Life::Lives(_, Some(before))) if self.is_held() => {
                now.deadline() == before.deadline()
            }
            (now, before) => now == before,
        };
        let has_failed = shown.failed.is_some() || self.told.failed.is_some();
        if is_same && !has_failed {
            return Vec::new();
        }
        self.told = shown.clone();
        self.users().map(|it| (it, shown.clone())).collect()
    }

    /// The last news for its settling users, after it has ended.
    pub(super) fn last_news(&self) -> impl Iterator<Item = (Tenant, Shown)> {
        let shown = self.ended();
        self.users().map(move |it| (it, shown.clone()))
    }

    /// What a user is told once it ends.
    pub(super) fn ended(&self) -> Shown {
        let id = match &self.told.life {
            Life::Ahead => None,
            Life::Lives(id, _) => Some(id),
            Life::Gone(id) => id.as_ref(),
        };
        Shown {
            life: Life::Gone(id.cloned()),
            failed: None,
            ..self.told.clone()
        }
    }

    /// An unused session is kept while a turn may begin with it, if one may come. If its only users
    /// wait for what may come late, its end settles that.
    pub(super) fn end_unless_used(&mut self, now: Instant, is_closed: bool) {
        if self.is_used() || self.session.is_ending() {
            return;
        }
        self.is_retired |= !self.users.is_empty();
        let is_fresh = self.session.lease().is_some_and(|it| it.is_fresh(now));
        if !self.session.is_sound() || !is_fresh || self.is_retired || is_closed {
            self.session.end();
        }
    }

    /// Whether it must not end yet. It must be there before it can be destroyed.
    fn is_used(&self) -> bool {
        let settling = if is_on(Defect::SessionKeptForLateKeys) {
            0
        } else {
            self.count(Stance::Settles)
        };
        self.users.len() > settling || self.session.is_being_created()
    }

    /// What the pool must know. `held`: with how many sessions somebody holds.
    pub(super) fn agenda(&self, held: usize, settings: &SessionSettings) -> Listed {
        let due = self
            .session
            .due_at(self.need(held, settings.proved_time()), settings);
        let is_new = self.session.id().is_none();
        let is_ending = self.session.is_ending();
        Listed {
            creation: due.filter(|_| is_new),
            destruction: due.filter(|_| !is_new && is_ending),
            request: due.filter(|_| !is_new && !is_ending),
            end: self
                .session
                .lease()
                .filter(|_| !self.is_used())
                .map(Lease::fresh_until),
            unknown: self.session.unknown_since(),
        }
    }
}

/// The least time between two renewals of a session, so that a process begins at most 300 a second. With
/// thousands of sessions it begins more, since each must be renewed thrice in its lease.
fn spacing(held: usize, whole: Duration) -> Duration {
    let all = Duration::from_secs(1) / 300 * u32::try_from(held).unwrap_or(u32::MAX);
    all.min(whole / 3)
}
