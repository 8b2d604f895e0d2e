//! Reports the changes of a step to the checks.

use std::collections::BTreeSet;

use semaphore_core::Lost;

use super::book::{Loss, LossKind};
use super::deeds::{Act, Undo};
use super::manage::asked_to_go;
use super::{Judged, Run};
use crate::check::Invariant;
use crate::history::{Belief, Happening, Who};
use crate::plan::{Place, Plan};

impl Run<'_> {
    pub(super) fn judge_step(&mut self) -> Judged {
        let (writes, now) = (self.world.take_writes(), self.world.now());
        let (seen, prefixes) = (&mut self.seen, &self.prefixes);
        let book = &self.book;
        let changes = self.world.consul(|consul, _| {
            if !seen.is_behind(consul) {
                return Vec::new();
            }
            let mut changes = seen.compare(consul, now, Some(&writes));
            let asked = writes.iter();
            changes.extend(asked.filter_map(|it| asked_to_go(consul, prefixes, it)));
            for change in &changes {
                if let Happening::Changed(change) = change {
                    let admitted = change.added.iter();
                    let admitted = admitted.filter(|it| seen.lives(consul, change.prefix, it));
                    admitted.for_each(|it| book.lock().restore(change.prefix, it));
                }
            }
            changes
        });
        self.note_taken(&changes);
        self.judge_all(&changes)
    }

    /// Compares an operator's deed separately, so the hosts that it affects are known.
    pub(super) fn judge_operation(&mut self) -> Judged {
        self.judge_deed(|_, _| false)
    }

    /// The same for a deed that has only ended sessions.
    pub(super) fn judge_ending(&mut self) -> Judged {
        let plan = self.plan;
        self.judge_deed(
            |whose, prefix| matches!(whose, Who::Ours(host) if plan.is_guarded(host, prefix)),
        )
    }

    fn judge_deed(&mut self, guards: impl Fn(Who, usize) -> bool) -> Judged {
        let before = self.seen.index();
        let (seen, now) = (&mut self.seen, self.world.now());
        let changes = self
            .world
            .consul(|consul, _| seen.compare(consul, now, None));
        let is_guarded = |session: &str, prefix: usize| {
            let owner = self.seen.owner(session);
            owner.is_some_and(|it| guards(it, prefix))
        };
        let mut book = self.book.lock();
        for change in &changes {
            match change {
                Happening::SessionEnded { session, .. } => {
                    for prefix in self.seen.places_of(session) {
                        let loss = Loss::removed(before);
                        book.take(prefix, session, loss, is_guarded(session, prefix));
                    }
                }
                Happening::Changed(change) => {
                    for session in change.taken_from() {
                        let is_removed = change.removed.iter().any(|it| it.session == *session);
                        let kind = if is_removed {
                            LossKind::Removed
                        } else {
                            LossKind::Overwritten
                        };
                        let term = change.term_before(session);
                        let loss = Loss { before, kind, term };
                        let is_guarded = is_guarded(session, change.prefix);
                        book.take(change.prefix, session, loss, is_guarded);
                    }
                    // A snapshot gives a place back, to those who come to believe in it from now on.
                    for session in &change.added {
                        if !book.believes(change.prefix, session) {
                            book.restore(change.prefix, session);
                        }
                    }
                    if let Some((session, term)) = change.shown_term() {
                        book.restore_shown(change.prefix, session, term);
                    }
                }
                _ => {}
            }
        }
        drop(book);
        self.judge_all(&changes)
    }

    fn judge_all(&mut self, changes: &[Happening]) -> Judged {
        if let Some(past) = &mut self.past {
            self.world.consul(|consul, _| past.look_at(consul));
        }
        let now = self.world.now();
        let (written, causes) = {
            let mut book = self.book.lock();
            let written = std::mem::take(&mut book.happenings);
            (written, std::mem::take(&mut book.causes))
        };
        for what in changes.iter().chain(&written) {
            self.count(what);
            if self.keeps_story
                && !matches!(
                    what,
                    Happening::Sent { .. } | Happening::Informed { .. } | Happening::Noticed { .. }
                )
            {
                self.world.note(format_args!("           · {what}"));
            }
            self.judge.happen(now, what)?;
            self.judge_in_peace(what)?;
        }
        self.judge.settle(now, &self.book.lock().held())?;
        for (after, deed) in causes {
            self.plan_act(now + after, Act::Do(deed));
        }
        Ok(())
    }

    /// Counts the holders that the end of this server's node affects, and whether they can know.
    pub(super) fn count_struck(&mut self, server: usize) {
        let node = Plan::node(server);
        let lost: BTreeSet<String> = self.world.consul(|consul, _| {
            let sessions = consul.sessions().filter(|it| it.node() == node);
            sessions.map(|it| it.id().to_owned()).collect()
        });
        let mut book = self.book.lock();
        let held = book.held();
        let struck = held
            .into_iter()
            .filter(|it| it.sessions.iter().any(|session| lost.contains(session)));
        let mut names = Vec::new();
        for belief in struck {
            let Who::Ours(host) = belief.who else {
                continue;
            };
            let is_cut_off = self.agenda.values().any(|act| match act {
                Act::Undo(
                    Undo::Heal(it) | Undo::GoOn(it) | Undo::Rejoin(it) | Undo::WakeUp(it, _),
                ) => *it == host,
                _ => false,
            });
            names.push(match (self.plan.place(belief.prefix), is_cut_off) {
                (Place::Semaphore, true) => "session of a holder ended, who was cut off",
                (Place::Semaphore, false) => "session of a holder ended, who was told",
                (Place::Election { .. }, true) => "session of a leader ended, who was cut off",
                (Place::Election { .. }, false) => "session of a leader ended, who was told",
            });
        }
        for name in names {
            book.count_fault(name);
        }
    }

    /// A host with sessions on a separate node must have none on a server's node. Counts the
    /// holders with such sessions whose server's node leaves.
    pub(super) fn judge_nodes(&mut self, server: usize) -> Judged {
        let node = Plan::node(server);
        let hosts = self.plan.hosts.iter();
        let ours = hosts.filter(|it| it.own_node && it.server == Some(server));
        let ours: BTreeSet<_> = ours.map(|it| Who::Ours(it.number)).collect();
        let on_node: Vec<String> = self.world.consul(|consul, _| {
            let sessions = consul.sessions().filter(|it| it.node() == node);
            sessions.map(|it| it.id().to_owned()).collect()
        });
        let owner = |session: &String| self.seen.owner(session);
        let wrong = on_node
            .iter()
            .find(|it| owner(it).is_some_and(|owner| ours.contains(&owner)));
        if let Some(session) = wrong {
            let what = format!("session {session} stands on {node}, and not on its separate node");
            return Err(self.broken(what, Invariant::L4));
        }
        let mut book = self.book.lock();
        let outlived = book
            .held()
            .iter()
            .filter(|it| ours.contains(&it.who))
            .count();
        for _ in 0..outlived {
            book.count_fault("holder on a separate node outlived its server");
        }
        Ok(())
    }

    /// Counts a loss that follows the loss of another hold on the same session, at another prefix.
    fn count_shared_loss(&mut self, belief: &Belief) {
        for session in &belief.sessions {
            let first = self.lost.entry(session.clone()).or_insert(belief.prefix);
            if *first != belief.prefix {
                self.book.lock().count_branch("shared-loss");
            }
        }
    }

    fn count(&mut self, what: &Happening) {
        match what {
            Happening::Granted { token, .. } if token.0 == 0 => {
                self.figures.grants_to_strangers += 1;
            }
            Happening::Granted { belief, .. } => {
                self.figures.grants += 1;
                let is_election = self.plan.place(belief.prefix).is_election();
                self.figures.elected += u64::from(is_election);
            }
            Happening::ValueSet { .. } => self.figures.values_set += 1,
            Happening::Lost { belief, reason } => {
                self.count_shared_loss(belief);
                if matches!(reason, Lost::SteppedDown) {
                    let mut book = self.book.lock();
                    book.count_fault("leader stepped down when asked");
                }
                let name = match reason {
                    Lost::SessionGone { .. } => "session gone",
                    Lost::RemovedFromHolders { .. } => "removed from the holders",
                    Lost::ContenderKeyTaken { .. } => "contender key taken",
                    Lost::KeyReleased { .. } => "key released",
                    Lost::KeyTaken { .. } => "key taken by another",
                    Lost::KeyDeleted { .. } => "key deleted",
                    Lost::KeyOverwritten { .. } => "key overwritten",
                    Lost::LeaseExpired { .. } => "lease ran out",
                    Lost::Evicted { .. } => "evicted",
                    Lost::SteppedDown => "stepped down",
                    _ => "other",
                };
                *self.figures.losses.entry(name).or_default() += 1;
            }
            _ => {}
        }
    }
}
