//! Watches whose turn it is: Queue.
//!
//! A claim is judged when it is sent, by what its sender had been told by then, and when it is
//! applied, by who still waits. What PROMISES excepts is excused, and nothing else:
//! - there are slots for all who wait before it,
//! - a slot was left unused for half a second; who saw it may be passed for 5 s,
//! - the slot was a dead holder's, and who waited then may be passed for 5 s,
//! - a slot passes among the callers of one process, for 0.3 s.

use std::sync::Arc;

use judge::Moment;
use judge::queue::{Filled, Pace};
use semaphore_core::sans_io::{Request, Response};
use serde_json::Value;
use transport_mock::consul::Entry;

use super::State;
use super::actor::Actor;
use super::agent::{LOCK, PREFIX};
use super::message::Message;
use super::node::Step;
use super::transaction::Transaction;
use crate::scene::{Contest, Scene};
use crate::violation::Violation;

/// A live contender that waits, and the index of its key's creation.
pub(super) type Waiter = (String, u64);

impl<A: Actor> State<A> {
    /// The waiters of others that a request must not pass: those of whom its sender knows.
    pub(super) fn known_ahead(&self, scene: &Scene, at: usize, request: &Request) -> Vec<String> {
        if scene.contest == Contest::Election || !self.claims(request) {
            return Vec::new();
        }
        let (now, queue) = (self.moment(), &self.monitor.queue);
        let known = self.nodes[at].known.iter();
        let others = known.filter(|(session, _)| {
            let owner = self.monitor.owner(session);
            owner.is_some_and(|owner| owner != at)
        });
        let waits = self.agent.waiters();
        let ahead = others.filter(|it| waits.contains(it));
        let ahead = ahead.filter(|(_, came)| !queue.may_pass(Pace::EXACT, (now, now), *came));
        ahead.map(|(session, _)| session.clone()).collect()
    }

    /// Whether a request admits somebody.
    fn claims(&self, request: &Request) -> bool {
        let holders = self.agent.holders();
        let written = Transaction::of(request).and_then(|it| it.holders_in(LOCK));
        written.is_some_and(|written| written.iter().any(|it| !holders.contains(it)))
    }

    /// Judges a write of the record. `before` is its earlier entry.
    pub(super) fn judge_turn(
        &mut self,
        scene: &Scene,
        message: &Message,
        before: Option<&Entry>,
    ) -> Result<(), Violation> {
        if scene.contest == Contest::Election || before == self.agent.subject() {
            return Ok(());
        }
        let (now, waits) = (self.moment(), self.agent.waiters());
        let had = before.and_then(|it| scene.contest.holders(it));
        let had = had.unwrap_or_default();
        let has = self.agent.holders().to_vec();
        let added: Vec<_> = has.iter().filter(|it| !had.contains(it)).collect();
        let is_own = |it: &String| self.monitor.owner(it) == Some(message.node);
        let mut removed = had.iter().filter(|it| !has.contains(it));
        let stays = removed.clone().any(&is_own);
        let is_of_the_dead = removed.any(|it| !is_own(it));
        let last = added
            .iter()
            .filter_map(|it| self.agent.came(it))
            .max()
            .unwrap_or_default();
        let ahead = waits.iter().filter(|(session, came)| {
            *came < last && self.monitor.owner(session) != Some(message.node)
        });
        let ahead: Vec<_> = ahead.collect();
        let limit = self.agent.limit().unwrap_or(scene.limit) as usize;
        let has_room = has.len() + ahead.len() <= limit;
        let monitor = Arc::make_mut(&mut self.monitor);
        let mut passed = None;
        if !has_room && !is_of_the_dead {
            passed = ahead.into_iter().find(|(session, _)| {
                let is_known = message.known_ahead().contains(session);
                let owner = monitor.owner(session).map(|owner| &self.nodes[owner]);
                let waits = owner.is_some_and(|it| {
                    it.actor.is_some() && it.callers.iter().any(|it| it.step == Step::Waits)
                });
                is_known && waits && !(stays && monitor.queue.may_stay(Pace::EXACT, now, session))
            });
        }
        let filled = Filled {
            is_free: has.len() < limit && !waits.is_empty(),
            is_of_the_dead,
            newest: waits.last().map(|(_, came)| *came).unwrap_or_default(),
        };
        monitor.queue.changed(Pace::EXACT, now, filled, added);
        match passed {
            Some((session, _)) => Err(Violation::OutOfTurn {
                writer: self.nodes[message.node].name.into(),
                session: session.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Must be called at the end of a step. Forgets who does not wait any more.
    pub(super) fn watch(&mut self, scene: &Scene) {
        if scene.contest == Contest::Election {
            return;
        }
        let (now, waits) = (self.moment(), self.agent.waiters());
        let limit = self.agent.limit().unwrap_or(scene.limit) as usize;
        let is_free = self.agent.holders().len() < limit && !waits.is_empty();
        let mut queue = self.monitor.queue.clone();
        queue.is_free(now, is_free);
        queue.forget(Pace::EXACT, now, &waits);
        if queue != self.monitor.queue {
            let monitor = Arc::make_mut(&mut self.monitor);
            monitor.queue = queue;
            monitor.show();
        }
        for node in &mut self.nodes {
            if node.known.iter().any(|it| !waits.contains(it)) {
                let node = Arc::make_mut(node);
                node.known.retain(|it| waits.contains(it));
            }
        }
        for message in &mut self.messages {
            message.forget(&waits);
        }
    }

    fn moment(&self) -> Moment {
        Moment(self.now.since_origin())
    }
}

/// The contender keys that an answer shows.
pub(super) fn shown_in(answer: &Response) -> Vec<Waiter> {
    let Ok(body) = serde_json::from_slice::<Value>(answer.body()) else {
        return Vec::new();
    };
    let results = body["Results"].as_array();
    let entries = results.or_else(|| body.as_array()).into_iter().flatten();
    let waiter = |entry: &Value| {
        let entry = if entry["KV"].is_object() {
            &entry["KV"]
        } else {
            entry
        };
        let session = entry["Session"].as_str()?;
        let is_contenders = entry["Key"] == format!("{PREFIX}/{session}");
        is_contenders.then_some((session.to_owned(), entry["CreateIndex"].as_u64()?))
    };
    entries.filter_map(waiter).collect()
}
