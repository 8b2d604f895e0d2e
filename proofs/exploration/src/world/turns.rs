//! Watches whose turn it is: Queue.
//!
//! A claim is judged when it is sent, by what its sender had been told by then, and when it is
//! applied, by who still waits. What PROMISES excepts is excused, and nothing else:
//! - there are slots for all who wait before it,
//! - a slot was left unused for half a second; who saw it may be passed for 5 s,
//! - the slot was a dead holder's, and who waited then may be passed for 5 s,
//! - a slot passes among the callers of one process, for 0.3 s; the first one, for whom it was claimed, may get it later.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use judge::queue::{LEFT_UNUSED, STAYS_FOR};
use judge::{Moment, Record};
use semaphore_core::sans_io::{Request, Response};
use serde_json::Value;
use transport_mock::consul::Entry;

use super::State;
use super::actor::Actor;
use super::agent::{LOCK, PREFIX};
use super::message::Message;
use super::transaction::Transaction;
use crate::scene::{Contest, Scene};
use crate::violation::Violation;

/// A live contender that waits, and the index of its key's creation.
pub(super) type Waiter = (String, u64);

impl<A: Actor> State<A> {
    /// The waiters of others that a request must not pass: those of whom its sender knows.
    pub(super) fn known_ahead(&self, scene: &Scene, at: usize, request: &Request) -> Vec<String> {
        if scene.contest == Contest::Election || !self.claims(request) {
            return match self.handover(scene, request) {
                sessions if sessions.is_empty() => Vec::new(),
                sessions => self.passed_by_handover(at, &sessions),
            };
        }
        let now = self.moment();
        let known = self.nodes[at].known.iter();
        let others = known.filter(|(session, _)| {
            let owner = self.monitor.owner(session);
            owner.is_some_and(|owner| owner != at)
        });
        let waits = self.agent.waiters();
        let ahead = others.filter(|it| waits.contains(it));
        let ahead = ahead.filter(|_| {
            // Rule 7: by the records that it saw.
            let since = self.nodes[at].room_since;
            since.is_none_or(|since| now.0 < since.since_origin() + LEFT_UNUSED)
        });
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
        // A claim follows the line. It does not matter who held the slot before.
        if !has_room {
            passed = ahead.into_iter().find(|(session, _)| {
                let is_known = message.known_ahead().contains(session);
                let owner = monitor.owner(session).map(|owner| &self.nodes[owner]);
                let waits = owner.is_some_and(|it| it.waits());
                is_known && waits
            });
        }
        monitor.has_slots_since(&added, now);
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
        let waits = self.agent.waiters();
        for node in &mut self.nodes {
            // Who never claims any more passes nobody.
            if !node.may_wait() && (node.room_since.is_some() || !node.known.is_empty()) {
                let node = Arc::make_mut(node);
                node.room_since = None;
                node.known.clear();
            }
            if node.known.iter().any(|it| !waits.contains(it)) {
                let node = Arc::make_mut(node);
                node.known.retain(|it| waits.contains(it));
            }
        }
        for message in &mut self.messages {
            message.forget(&waits);
        }
    }

    /// The sessions whose slots a request hands over to the next caller in the same process: it
    /// touches their keys, and leaves the record alone.
    pub(super) fn handover(&self, scene: &Scene, request: &Request) -> Vec<String> {
        if scene.contest == Contest::Election {
            return Vec::new();
        }
        let Some(transaction) = Transaction::of(request) else {
            return Vec::new();
        };
        if transaction.holders_in(LOCK).is_some() {
            return Vec::new();
        }
        let holders = self.agent.holders();
        let sessions = transaction.tied().map(str::to_owned);
        sessions.filter(|it| holders.contains(it)).collect()
    }

    /// The waiters of others whom a handover must not pass, if the slots have stayed for too long.
    fn passed_by_handover(&self, at: usize, sessions: &[String]) -> Vec<String> {
        let now = self.moment();
        let may_stay = |session: &String| {
            let since = self.monitor.slot_since(session);
            let is_short = since.is_none_or(|since| now.0 <= since.0 + STAYS_FOR);
            is_short || !self.monitor.has_served(session)
        };
        if sessions.iter().all(may_stay) {
            return Vec::new();
        }
        let known = self.nodes[at].known.iter();
        let others = known.filter(|(session, _)| {
            let owner = self.monitor.owner(session);
            owner.is_some_and(|owner| owner != at)
        });
        others.map(|(session, _)| session.clone()).collect()
    }

    /// Judges a write that has handed slots over, if it was applied.
    pub(super) fn judge_handover(
        &mut self,
        message: &Message,
        sessions: &[String],
    ) -> Result<(), Violation> {
        let agent = Arc::clone(&self.agent);
        let newest = agent.newest();
        let is_applied = |session: &&String| agent.touched(session) == Some(newest);
        let mut applied = sessions.iter().filter(is_applied).peekable();
        if applied.peek().is_none() {
            return Ok(());
        }
        let monitor = Arc::make_mut(&mut self.monitor);
        for session in applied {
            monitor.handed_over(session, newest);
        }
        let waits = agent.waiters();
        let passed = waits.into_iter().find(|(session, _)| {
            let is_known = message.known_ahead().contains(session);
            let owner = self.monitor.owner(session).map(|owner| &self.nodes[owner]);
            is_known && owner.is_some_and(|it| it.waits())
        });
        match passed {
            Some((session, _)) => Err(Violation::OutOfTurn {
                writer: self.nodes[message.node].name.into(),
                session,
            }),
            None => Ok(()),
        }
    }

    fn moment(&self) -> Moment {
        Moment(self.now.since_origin())
    }
}

/// What an answer tells of the line.
#[derive(Default)]
pub(super) struct Told {
    /// Who was served: the record names them, or their key was touched since they came. They and all
    /// before them have left the line of those who see it (rule 5), until a list shows it again. These
    /// are the named ones.
    pub(super) served: Vec<String>,
    /// The places of those whose keys were touched.
    pub(super) touched: Vec<u64>,
    /// Whether the record leaves room, or names somebody without a key; nothing if it is not shown.
    pub(super) has_room: Option<bool>,
}

impl Told {
    pub(super) fn by(answer: &Response) -> Self {
        let mut told = Self::default();
        if answer.status() == 404 {
            told.has_room = Some(true);
        }
        let Ok(body) = serde_json::from_slice::<Value>(answer.body()) else {
            return told;
        };
        let entries: Vec<_> = entries_of(&body).collect();
        let is_tied = |name: &str| entries.iter().any(|it| it["Session"] == *name);
        for entry in &entries {
            if entry["Key"] != LOCK {
                let created = entry["CreateIndex"].as_u64();
                let is_touched = entry["ModifyIndex"].as_u64() > created;
                let is_tied = entry["Session"].is_string();
                told.touched
                    .extend(created.filter(|_| is_touched && is_tied));
                continue;
            }
            let value = entry["Value"].as_str();
            let value = value.and_then(|it| STANDARD.decode(it).ok());
            let flags = entry["Flags"].as_u64().unwrap_or_default();
            let record = value.and_then(|it| Record::read(&it, flags));
            // An applied write of one's own shows no value.
            told.has_room = Some(record.as_ref().is_none_or(|record| {
                let lists = entries.len() > 1;
                let live = record.holders().filter(|it| !lists || is_tied(it));
                live.count() < record.limit() as usize
            }));
            let holders = record.iter().flat_map(Record::holders);
            told.served.extend(holders.map(str::to_owned));
        }
        // A list, or a tree after an entry, without the record.
        if !entries.iter().any(|it| it["Key"] == LOCK) && entries.len() > 1 {
            told.has_room = Some(true);
        }
        told
    }
}

fn entries_of(body: &Value) -> impl Iterator<Item = &Value> {
    let results = body["Results"].as_array();
    let entries = results.or_else(|| body.as_array()).into_iter().flatten();
    entries.map(|entry| {
        if entry["KV"].is_object() {
            &entry["KV"]
        } else {
            entry
        }
    })
}

/// The contender keys that an answer shows.
pub(super) fn shown_in(answer: &Response) -> Vec<Waiter> {
    let Ok(body) = serde_json::from_slice::<Value>(answer.body()) else {
        return Vec::new();
    };
    let waiter = |entry: &Value| {
        let session = entry["Session"].as_str()?;
        let is_contenders = entry["Key"] == format!("{PREFIX}/{session}");
        is_contenders.then_some((session.to_owned(), entry["CreateIndex"].as_u64()?))
    };
    entries_of(&body).filter_map(waiter).collect()
}
