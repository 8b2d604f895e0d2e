//! Records of users, hosts and strangers, for the checks at the end of the step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use semaphore_core::sans_io::{Method, Request};
use semaphore_core::{FencingToken, Lost};
use transport_mock::{Fault, RequestKind};

use super::contest::Held;
use crate::branches::Taken;
use crate::history::{Belief, BeliefNo, Happening, ShownTerm, Who};
use crate::plan::{Deed, is_own};

/// Clones share the same book.
#[derive(Clone, Default)]
pub(super) struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
pub(super) struct Pages {
    pub(super) happenings: Vec<Happening>,
    /// The deeds that requests have caused, with their delays.
    pub(super) causes: Vec<(Duration, Deed)>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(super) unserved: BTreeMap<&'static str, u64>,
    /// How slow commits are now, if they are.
    pub(super) commits: Option<Commits>,
    /// Branches of the core that show in its requests.
    pub(super) branches: Taken,
    /// The sessions from which an operator has taken something, with the prefix.
    taken: BTreeMap<(usize, String), Loss>,
    beliefs: Vec<(Belief, Hold)>,
    granted: u32,
}

/// A leader that is busy.
#[derive(Clone, Copy)]
pub(super) struct Commits {
    /// How long a write takes.
    pub(super) takes: Duration,
    /// Whether a renewal takes as long.
    pub(super) renewals: bool,
}

impl Commits {
    /// What it does to this request.
    pub(super) fn fault(self, request: &Request) -> Option<Fault> {
        let is_renewal = RequestKind::of(request) == RequestKind::SessionRenew;
        // A confirmed read in a transaction is no commit.
        let is_write = request.method() != Method::Get && !request.target().contains("consistent");
        let is_slow = is_write && (self.renewals || !is_renewal);
        is_slow.then_some(Fault::Delay(self.takes))
    }
}

/// What an operator has done to a session.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    /// Consul's index just before.
    pub(super) before: u64,
    pub(super) kind: LossKind,
    /// What the election's key showed of the session's term before, as far as is known.
    pub(super) term: Option<ShownTerm>,
}

impl Loss {
    /// The session holds nothing any more. `before`: Consul's index just before.
    pub(super) fn removed(before: u64) -> Self {
        Self {
            before,
            kind: LossKind::Removed,
            term: None,
        }
    }
}

/// How something was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LossKind {
    /// The session holds nothing any more.
    Removed,
    /// The session holds the key, which no longer shows the term.
    Overwritten,
}

enum Hold {
    Ours(Weak<Held>),
    Strangers,
}

impl Book {
    pub(super) fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn happened(&self, what: Happening) {
        self.lock().happenings.push(what);
    }

    pub(super) fn unserved(&self, why: &'static str) {
        *self.lock().unserved.entry(why).or_default() += 1;
    }

    /// One of our hosts got a permit, or leads.
    pub(super) fn granted(&self, host: usize, prefix: usize, granted: &Arc<Held>) -> BeliefNo {
        let hold = Hold::Ours(Arc::downgrade(granted));
        let (sessions, permits) = (granted.sessions(), granted.permits());
        let (mut pages, token) = (self.lock(), granted.token());
        if let Held::Leadership(_) = **granted {
            pages.restore_elected(prefix, &sessions, token);
        }
        let is_elsewhere = |it: &Belief| {
            let is_another = it.prefix != prefix && !is_own(it.prefix) && !is_own(prefix);
            is_another && it.sessions.iter().any(|it| sessions.contains(it))
        };
        if pages.held().into_iter().any(is_elsewhere) {
            pages.count_fault("session that holds at several contested prefixes");
        }
        let of_whom = (Who::Ours(host), prefix, sessions, permits);
        pages.begin(of_whom, hold, token)
    }

    /// A stranger has a slot, or a crowd of them has one with each of these sessions.
    pub(super) fn granted_to_stranger(
        &self,
        number: usize,
        prefix: usize,
        sessions: Vec<String>,
    ) -> BeliefNo {
        let permits = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let who = (Who::Stranger(number), prefix, sessions, permits);
        self.lock().begin(who, Hold::Strangers, FencingToken(0))
    }

    /// A holder learned of its loss.
    pub(super) fn lost(&self, no: BeliefNo, reason: Lost) {
        let mut pages = self.lock();
        let belief = pages.beliefs.iter().find(|(it, _)| it.no == no);
        if let Some(belief) = belief.map(|(belief, _)| belief.clone()) {
            pages.happenings.push(Happening::Lost { belief, reason });
        }
    }

    /// A holder releases, or has lost its hold.
    pub(super) fn ended(&self, no: BeliefNo) {
        let mut pages = self.lock();
        pages.beliefs.retain(|(belief, _)| belief.no != no);
        pages.happenings.push(Happening::Released { belief: no });
    }
}

impl Pages {
    fn begin(
        &mut self,
        (who, prefix, sessions, permits): (Who, usize, Vec<String>, u32),
        hold: Hold,
        token: FencingToken,
    ) -> BeliefNo {
        self.granted += 1;
        let no = BeliefNo(self.granted);
        let belief = Belief {
            no,
            who,
            prefix,
            sessions,
            permits,
        };
        self.beliefs.push((belief.clone(), hold));
        self.happenings.push(Happening::Granted { belief, token });
        no
    }

    /// The beliefs at this moment, by their holders' own clocks.
    pub(super) fn held(&mut self) -> Vec<&Belief> {
        if self.beliefs.is_empty() {
            return Vec::new();
        }
        // A killed process believes nothing.
        self.beliefs.retain(|(_, hold)| match hold {
            Hold::Ours(held) => held.strong_count() > 0,
            Hold::Strangers => true,
        });
        let held = self.beliefs.iter().filter(|(_, hold)| match hold {
            Hold::Ours(held) => held.upgrade().is_some_and(|it| it.is_believed()),
            Hold::Strangers => true,
        });
        held.map(|(belief, _)| belief).collect()
    }

    /// Whether somebody believes in a place of this session now.
    pub(super) fn believes(&mut self, prefix: usize, session: &str) -> bool {
        let mut held = self.held().into_iter();
        held.any(|it| it.prefix == prefix && it.sessions.iter().any(|of| of == session))
    }

    /// Something was taken from this session at this prefix.
    pub(super) fn take(&mut self, prefix: usize, session: &str, loss: Loss, is_guarded: bool) {
        let session = session.to_owned();
        let at = (prefix, session.clone());
        // What is taken twice was whole before the first time.
        let first = self.taken.get(&at).and_then(|it| it.term);
        let term = first.or(loss.term);
        self.taken.insert(at, Loss { term, ..loss });
        let taken = Happening::Taken {
            session,
            prefix,
            is_guarded,
        };
        self.happenings.push(taken);
    }

    /// No lock delay guards the losses any more.
    pub(super) fn guard_no_more(&mut self, index: u64) {
        for ((prefix, session), loss) in self.taken.clone() {
            let loss = Loss {
                before: index,
                ..loss
            };
            self.take(prefix, &session, loss, false);
        }
    }

    /// This session, from which something may have been taken, is a complete holder again.
    pub(super) fn restore(&mut self, prefix: usize, session: &str) {
        let session = session.to_owned();
        let at = (prefix, session);
        if self.taken.remove(&at).is_some() {
            let (prefix, session) = at;
            self.happenings
                .push(Happening::Restored { session, prefix });
        }
    }

    /// A key shows this term of a session. If that is the one that was taken from it, as after a snapshot was
    /// restored, the session has it again.
    pub(super) fn restore_shown(&mut self, prefix: usize, session: &str, term: ShownTerm) {
        let loss = self.taken.get(&(prefix, session.to_owned()));
        if loss.is_some_and(|it| it.term == Some(term)) {
            self.restore(prefix, session);
        }
    }

    /// If a leader is elected by the key as an operator left it, nothing was taken from its term. Who
    /// was removed is not elected by that, and its token may be from before indexes were counted
    /// again.
    fn restore_elected(&mut self, prefix: usize, sessions: &[String], token: FencingToken) {
        for session in sessions {
            let loss = self.taken.get(&(prefix, session.clone()));
            if loss.is_some_and(|it| it.kind == LossKind::Overwritten && token.0 > it.before) {
                self.restore(prefix, session);
            }
        }
    }

    /// The host's beliefs at this prefix from which an operator has taken something. An answer with
    /// this index must show that. Answers from before the deed have a lower index.
    pub(super) fn taken_from(&self, host: usize, prefix: usize, index: u64) -> Vec<String> {
        if self.taken.is_empty() {
            return Vec::new();
        }
        let whose = self.beliefs.iter().map(|(belief, _)| belief);
        whose
            .filter(|it| it.who == Who::Ours(host) && it.prefix == prefix)
            .flat_map(|it| {
                it.sessions
                    .iter()
                    .map(|session| (it.prefix, session.clone()))
            })
            .filter(|it| self.taken.get(it).is_some_and(|loss| index > loss.before))
            .map(|(_, session)| session)
            .collect()
    }

    pub(super) fn count_branch(&mut self, name: &'static str) {
        *self.branches.entry(name).or_default() += 1;
    }

    pub(super) fn count_fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(kind: LossKind) -> Loss {
        Loss {
            before: 20,
            kind,
            term: None,
        }
    }

    /// Whether a leader with this token is a complete holder again.
    fn is_restored(kind: LossKind, token: u64) -> bool {
        let mut pages = Pages::default();
        let loss = loss(kind);
        pages.take(0, "s", loss, false);
        pages.restore_elected(0, &["s".to_owned()], FencingToken(token));
        let mut happenings = pages.happenings.iter();
        happenings.any(|it| matches!(it, Happening::Restored { .. }))
    }

    #[test]
    fn a_leader_is_one_again_only_by_the_key_that_an_operator_left_to_it() {
        assert!(is_restored(LossKind::Overwritten, 21));
        assert!(!is_restored(LossKind::Overwritten, 20), "from before");
        // Its token may be from before indexes were counted again.
        assert!(!is_restored(LossKind::Removed, 1_000_019));
    }

    /// Seed 34087173: a key was garbled and deleted, and a snapshot brought it back as it was.
    #[test]
    fn a_leader_is_one_again_by_a_key_that_shows_its_term_as_before() {
        let shown = |lock_index| ShownTerm {
            lock_index,
            flags: 0,
        };
        let restored_by = |term| {
            let mut pages = Pages::default();
            for (kind, before) in [
                (LossKind::Overwritten, shown(3)),
                (LossKind::Removed, shown(0)),
            ] {
                let term = Some(before);
                pages.take(0, "s", Loss { term, ..loss(kind) }, false);
            }
            pages.restore_shown(0, "s", term);
            !pages.taken.contains_key(&(0, "s".to_owned()))
        };
        assert!(restored_by(shown(3)));
        assert!(!restored_by(shown(4)), "another term");
        assert!(!restored_by(shown(0)), "as an operator left it");
    }
}
