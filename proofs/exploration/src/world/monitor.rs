//! Watches writes and grants: S3, S4 and S5.

use std::cmp::Ordering;
use std::fmt::Write as _;

use judge::Moment;
use semaphore_core::sans_io::{Instant, Request};
use transport_mock::consul::Entry;

use super::actor::Fencing;
use super::agent::Agent;
use super::transaction::Transaction;
use super::values::Values;
use crate::canon::{Token, tokens};
use crate::scene::{Contest, Scene};
use crate::violation::Violation;

#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor {
    /// The creator of each live session.
    owners: Vec<(String, usize)>,
    /// Sessions that a write has admitted, with the write's index. Their grants are not known yet.
    admitted: Vec<(String, u64)>,
    /// Since when a participant has had the slot of each session.
    slots: Vec<(String, Moment)>,
    /// Grants with the index of the write that admitted them, and their tokens. Only the newest are
    /// kept, and those that a later grant may have to be compared with.
    grants: Vec<(u64, Fencing)>,
    /// Sessions that ended early, through an operator or with their node.
    destroyed: Vec<String>,
    /// The values that leaders have asked for.
    pub(super) values: Values,
    tokens: Vec<Token>,
}

/// A request that arrives, and its sender.
pub(super) struct Sent<'a> {
    pub(super) node: usize,
    pub(super) name: char,
    pub(super) request: &'a Request,
    /// Whether nobody waits for its answer any more.
    pub(super) is_late: bool,
}

impl Sent<'_> {
    /// Whether it releases a key.
    pub(super) fn is_release(&self) -> bool {
        let unlocks = Transaction::of(self.request).is_some_and(|it| it.unlocks());
        unlocks || self.request.target().contains("?release=")
    }
}

impl Monitor {
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    pub(crate) fn sessions_of(&self, node: usize) -> impl Iterator<Item = &str> {
        self.owners
            .iter()
            .filter(move |(_, owner)| *owner == node)
            .map(|(session, _)| session.as_str())
    }

    pub(crate) fn owner(&self, session: &str) -> Option<usize> {
        let found = self.owners.iter().find(|(owned, _)| owned == session);
        found.map(|(_, owner)| *owner)
    }

    pub(crate) fn destroyed(&mut self, session: &str) {
        self.destroyed.push(session.to_owned());
    }

    pub(crate) fn is_destroyed(&self, session: &str) -> bool {
        self.destroyed.iter().any(|it| it == session)
    }

    /// A slot went to the next caller of the same process, by the write of this index.
    pub(super) fn handed_over(&mut self, session: &str, index: u64) {
        self.admitted.push((session.to_owned(), index));
        self.show();
    }

    /// Whether the slot to which a session was admitted has had a user. If the answer to its claim was lost, the
    /// one for whom it claimed gets it by a handover.
    pub(super) fn has_served(&self, session: &str) -> bool {
        !self.admitted.iter().any(|(it, _)| it == session)
    }

    pub(super) fn slot_since(&self, session: &str) -> Option<Moment> {
        let found = self.slots.iter().find(|(it, _)| it == session);
        found.map(|(_, since)| *since)
    }

    pub(super) fn has_slots_since(&mut self, sessions: &[&String], now: Moment) {
        let new = sessions.iter().map(|it| ((*it).clone(), now));
        self.slots.extend(new);
    }

    pub(super) fn has_destroyed(&self) -> bool {
        !self.destroyed.is_empty()
    }

    /// Refuses a change of the key that could overwrite others' writes unseen.
    pub(crate) fn judge_request(contest: Contest, sent: &Sent<'_>) -> Result<(), Violation> {
        if contest.is_plain_write(sent.request) {
            let writer = sent.name.into();
            return Err(Violation::PlainWrite { writer });
        }
        Ok(())
    }

    /// Records the effect of a request. `before` is the key's earlier entry.
    pub(crate) fn judge_change(
        &mut self,
        scene: &Scene,
        sent: &Sent<'_>,
        before: Option<&Entry>,
        agent: &Agent,
    ) -> Result<(), Violation> {
        let after = agent.subject();
        if before != after {
            self.judge_write(scene, sent, before, after, agent)?;
            self.note_passed(scene.contest, sent.request, before, after);
        }
        self.refresh(agent, Some(sent.node));
        Ok(())
    }

    fn judge_write(
        &mut self,
        scene: &Scene,
        sent: &Sent<'_>,
        before: Option<&Entry>,
        after: Option<&Entry>,
        agent: &Agent,
    ) -> Result<(), Violation> {
        let writer = String::from(sent.name);
        let Some(after) = after else {
            return Err(Violation::PlainWrite { writer });
        };
        let holders = |entry: &Entry| scene.contest.holders(entry);
        let had = match before.map(holders) {
            None => Vec::new(),
            Some(None) => return Err(Violation::GarbageReplaced { writer }),
            Some(Some(had)) => had,
        };
        let Some(has) = holders(after) else {
            return Err(Violation::GarbageWritten { writer });
        };
        let limit_of = |entry: &Entry| scene.contest.limit(entry).unwrap_or(scene.limit);
        let (holders, limit) = (has.len(), limit_of(after));
        if holders > limit as usize {
            return Err(Violation::OverfullRecord { holders, limit });
        }
        let is_changed = before.is_some_and(|before| limit_of(before) != limit);
        if is_changed && (!scene.is_rolling || had.iter().any(|it| has.contains(it))) {
            return Err(Violation::LimitChanged { writer, limit });
        }
        for session in had.iter().filter(|session| !has.contains(session)) {
            if agent.is_tied(session) && self.owner(session) != Some(sent.node) {
                let session = session.clone();
                return Err(Violation::LiveHolderRemoved { writer, session });
            }
        }
        if scene.contest == Contest::Election {
            self.values.judge(sent, before, after)?;
        }
        let added = has.into_iter().filter(|it| !had.contains(it));
        let index = after.modify_index();
        self.admitted.extend(added.map(|session| (session, index)));
        Ok(())
    }

    /// A transaction that keeps a session in the record and checks its key admits it again: its
    /// slot passes to the next caller.
    fn note_passed(
        &mut self,
        contest: Contest,
        request: &Request,
        before: Option<&Entry>,
        after: Option<&Entry>,
    ) {
        let (Some(transaction), Some(entry)) = (Transaction::of(request), after) else {
            return;
        };
        // In an election, the leader only changes its value.
        if contest == Contest::Election {
            return;
        }
        let had = before.and_then(|it| contest.holders(it));
        let (Some(had), Some(has)) = (had, contest.holders(entry)) else {
            return;
        };
        let index = entry.modify_index();
        let passed = transaction.tied();
        let is_in = |all: &[String], it: &str| all.iter().any(|session| session == it);
        let passed = passed.filter(|it| is_in(&had, it) && is_in(&has, it));
        self.admitted
            .extend(passed.map(|session| (session.to_owned(), index)));
    }

    /// Compares a grant's token with those of other grants, in the order of the writes.
    pub(crate) fn judge_grant(
        &mut self,
        sessions: &[String],
        token: Fencing,
    ) -> Result<(), Violation> {
        let admitted = self.admitted.iter();
        let write = admitted
            .filter(|(session, _)| sessions.contains(session))
            .map(|(_, index)| *index)
            .max();
        // If its session was destroyed meanwhile, the grant is already lost.
        let Some(write) = write else {
            return Ok(());
        };
        for (other_write, other) in self.grants.iter().copied() {
            let is_in_order = match other_write.cmp(&write) {
                Ordering::Less => other < token,
                // The same write admitted both, so any order is right.
                Ordering::Equal => other != token,
                Ordering::Greater => other > token,
            };
            if !is_in_order {
                let apart = |it: Fencing| (it.index, it.number);
                return Err(Violation::TokenOutOfOrder {
                    token: apart(token),
                    other: apart(other),
                });
            }
        }
        self.admitted
            .retain(|(session, _)| !sessions.contains(session));
        self.grants.push((write, token));
        Ok(())
    }

    /// Forgets what no check needs. New sessions belong to `writer`.
    pub(crate) fn refresh(&mut self, agent: &Agent, writer: Option<usize>) {
        self.owners.retain(|(session, _)| agent.is_alive(session));
        if let Some(writer) = writer {
            for session in agent.sessions() {
                if self.owner(&session).is_none() {
                    self.owners.push((session, writer));
                }
            }
        }
        let holders = agent.holders();
        self.admitted
            .retain(|(session, _)| holders.contains(session));
        self.slots.retain(|(session, _)| holders.contains(session));
        let newest = self.grants.iter().max().copied();
        let oldest_awaited = self.admitted.iter().map(|(_, index)| *index).min();
        self.grants.retain(|grant| {
            Some(*grant) == newest || oldest_awaited.is_some_and(|awaited| grant.0 > awaited)
        });
        self.values.forget(|session| agent.is_alive(session));
        self.show();
    }

    /// Must be called after every change.
    pub(super) fn show(&mut self) {
        let mut text = String::new();
        for (session, index) in &self.admitted {
            let _ = write!(text, "{session} base: Index({index});");
        }
        for (index, token) in &self.grants {
            let (of, number) = (token.index, token.number);
            let _ = write!(text, "base: Index({index}) base: Index({of}) {number};");
        }
        let _ = write!(text, "{:?}", self.destroyed);
        self.values.show_in(&mut text);
        self.show_queue(&mut text);
        self.tokens = tokens(&text);
    }

    fn show_queue(&self, text: &mut String) {
        let instant = |at: Moment| Instant::from_origin(at.0);
        for (session, since) in &self.slots {
            let _ = write!(text, "{session} released_at: {:?};", instant(*since));
        }
    }
}
