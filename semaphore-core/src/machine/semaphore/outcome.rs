//! How the write under way ended, and what that means for each contender.
//!
//! - *Applied*: its index is the newest of everything that it touched. Grants happen here and nowhere
//!   else.
//! - *Refused*: something that we knew is old, and is read again.
//! - *Unknown*: nothing new is known. It may still be applied at any time, but it and its successors
//!   need the same index, so at most one of them is.

use core::time::Duration;

use super::contender::{Contender, ContenderNo, Entry, Stand};
use super::learn::Reading;
use super::missing::Dead;
use super::reads::Due;
use super::record::Told;
use super::step::{Act, After, Exit, Outcome, Refused, Step};
use super::{Grant, Participant, Slots};
use crate::defect::{Defect, is_on};
use crate::error::{Error, Lost, RequestError};
use crate::http::Response;
use crate::id::{FencingToken, Index};
use crate::machine::notice::Notice;
use crate::machine::process::failed::Failed;
use crate::machine::process::reader::backoff::jitter;
use crate::sequencer::Sequencer;
use crate::subject::Subject;
use crate::time::Instant;
use crate::view::Lock;

/// From the second refusal by the record in a row on, a write waits for so long, doubled each time,
/// up to the longest: others got on meanwhile (rule 10).
const REFUSED: Duration = Duration::from_millis(1);
const REFUSED_AT_MOST: Duration = Duration::from_millis(8);

impl Participant {
    pub(super) fn take_outcome(
        &mut self,
        now: Instant,
        sent_at: Instant,
        answer: Result<&Response, RequestError>,
    ) {
        let Some((step, _)) = self.writes.step.take() else {
            return;
        };
        self.writes.ended = self.moment();
        let outcome = answer.and_then(|response| step.parse(response, &self.settings));
        match outcome {
            Ok(Outcome::Applied(after)) => {
                self.note(now, None);
                self.writes.refused = 0;
                self.writes.unfounded = 0;
                self.writes.held_up = 0;
                self.writes.pause.end();
                self.writes.pause.reset();
                self.applied(now, sent_at, &step, &after);
            }
            Ok(Outcome::Refused(refused)) => {
                self.note(now, None);
                self.refused(now, &step, &refused);
            }
            Err(error) => self.failed(now, &step, Failed { sent_at, error }),
        }
        self.settle_with_record(now, &step);
    }

    /// The write is given up.
    pub(super) fn outcome_unknown(&mut self, now: Instant) {
        if let Some((step, _)) = self.writes.step.take() {
            self.writes.ended = self.moment();
            self.unknown(now, &step);
            self.settle_with_record(now, &step);
        }
    }

    /// What the record says of those of whom nothing was concluded while the write was under way.
    fn settle_with_record(&mut self, now: Instant, step: &Step) {
        for part in &step.parts {
            self.compare_with_record(now, part.no, false);
        }
    }

    fn applied(&mut self, now: Instant, sent_at: Instant, step: &Step, after: &After) {
        let moment = self.moment();
        let told = |lock| Told {
            moment,
            lock: Some(lock),
            as_of: after.index,
            is_ours: true,
        };
        if let Some((base, record)) = &step.record {
            let lock = Lock {
                modify_index: after.index,
                record: Ok(record.clone()),
            };
            let suspects = self.known.missing.take_suspects();
            // What it replaces is what is known, unless a read was faster than this answer. (After a
            // restored snapshot indexes may be lower than that from which no record was known.)
            if self.known.record.index() == *base {
                self.replace_record(now, told(lock));
            } else {
                self.learn_record(now, told(lock));
            }
            self.known
                .missing
                .still_suspects(suspects, |it| record.holds(it));
        } else if let Some(lock) = after.lock.clone() {
            self.learn_record(now, told(lock));
        }
        if !step.prunes.is_empty() {
            for Dead { name, taken_at } in &step.prunes {
                let (lock_delay, value) = self.known.missing.seen(name);
                let what = match taken_at {
                    None => "a holder has died: its place is free",
                    Some(_) => {
                        "a holder has lost its contender key to another session: its place is free"
                    }
                };
                tracing::info!(name: "holder-died", target: "semaphore_core", session = name, value, ?lock_delay, "{what}");
            }
            let sessions: Vec<String> = step.prunes.iter().map(|it| it.name.clone()).collect();
            tracing::debug!(name: "pruned", ?sessions, "removed dead holders from the record");
            self.callers
                .notices_mut()
                .tell(|| Notice::Pruned { sessions });
        }
        if step.is_out_of_turn {
            tracing::debug!(name: "others-passed", "those ahead left a slot unused for too long");
            self.known.record.took_room();
        }
        for part in &step.parts {
            let shown = after.keys.get(&part.no);
            self.ours.change(part.no, |it| match (part.act, shown) {
                (Act::Exit(Exit::Release | Exit::Leave), _) => {
                    it.key = None;
                    // After LATE nothing comes any more.
                    if it.is_late_over(now) {
                        it.entry = Entry::Settled;
                    }
                }
                (Act::Exit(Exit::NameOnly), _) | (_, None) => {}
                // Its session has ended meanwhile, and the key with it.
                _ if it.loan.is_gone() => it.key = None,
                (_, Some(shown)) => {
                    it.saw(shown);
                    it.loan.lived(sent_at);
                }
            });
            if part.act.claims() {
                self.ours.change(part.no, |it| it.slot_since = now);
            }
            self.compare_with_record(now, part.no, true);
        }
        self.grant(now, sent_at, step, after.index);
        self.pass_on(step);
        if let Some(tree) = &after.tree {
            let reading = Reading {
                moment,
                sent_at,
                is_confirmed: false,
                is_tree: true,
            };
            let due = self.reads.due();
            if self.learn_list(now, tree, reading) {
                self.known.shown = step.composed;
                self.reads.require(due);
            } else {
                self.reads.require(Due::List);
            }
        }
    }

    /// The only place where callers get slots: an applied write after which the record names the
    /// contenders, if their belief has not run out. A caller of several slots gets all or none.
    fn grant(&mut self, now: Instant, sent_at: Instant, step: &Step, index: Index) {
        let mut number = 0;
        for group in &step.serves {
            let mut is_whole = true;
            for no in group {
                // An operator may have removed the name meanwhile.
                let contender = self.ours.get(*no).filter(|it| it.stand() == Stand::Idle);
                if !contender.is_some_and(|it| it.may_be_granted(now, sent_at)) {
                    is_whole = false;
                    self.ours.change(*no, Contender::leave);
                }
            }
            let mut waiting = self.callers.queue().first();
            // Who came after the write was composed may know of a later grant, whose token is higher
            // (S5): the slot is handed over to it.
            let next = waiting.find(|it| it.permits as usize == group.len());
            let next = next.filter(|it| it.id.0 <= step.composed.0).copied();
            drop(waiting);
            let Some(ticket) = next.filter(|_| is_whole) else {
                continue;
            };
            self.callers.take(ticket.id);
            let index = if is_on(Defect::TokenOfQueue) {
                let created = group.first().and_then(|no| self.ours.get(*no)?.created());
                created.unwrap_or(index)
            } else {
                index
            };
            let token = FencingToken::of_grant(index, number);
            if !is_on(Defect::TokenRepeated) {
                number += group.len() as u64;
            }
            let mut sequencers = Vec::new();
            for no in group {
                let prefix = &self.settings.prefix;
                let sequencer = self.ours.change(*no, |it| {
                    it.serve(ticket.id, now);
                    // Once named, its slots are like any others.
                    it.group = (*no, 1);
                    it.loan.hold();
                    let (session, key) = (it.session()?.clone(), it.key?);
                    Some(Sequencer {
                        key: prefix.contender_key(&session),
                        lock_index: key.lock_index,
                        session,
                    })
                });
                sequencers.extend(sequencer.flatten());
            }
            let slots = Slots {
                contenders: group.clone(),
                owed: group.clone(),
            };
            let grant = Grant { token, sequencers };
            self.callers.granted(now, &ticket, (token, grant), slots);
        }
        // What nobody was found for is idle, and is given up or handed over by the rules.
        for no in step.serves.iter().flatten() {
            self.ours.change(*no, |it| it.group = (*no, 1));
        }
    }

    /// Slots that were handed over are given back by those who had them.
    fn pass_on(&mut self, step: &Step) {
        for part in &step.parts {
            if part.act == Act::HandOver {
                tracing::trace!(name: "handed-over", "a slot goes to the next caller");
                self.given_back(part.no);
            }
        }
    }

    fn refused(&mut self, now: Instant, step: &Step, refused: &Refused) {
        let retry_at = now + super::patience(&mut self.rng);
        for session in &refused.delayed {
            tracing::debug!(name: "lock-delay", %session, "a holder's lock delay is not over");
            self.known.missing.refused(session, retry_at);
        }
        for part in &step.parts {
            if part.act == Act::EnterAndClaim {
                // From now on it only enters.
                self.ours.change(part.no, |it| {
                    if it.entry == Entry::Settled {
                        it.entry = Entry::Refused;
                    }
                });
            }
        }
        if refused.held {
            self.reads.require(Due::List);
        }
        for no in &refused.exist {
            self.found_there(now, *no);
        }
        for no in &refused.ended {
            let session = self.ours.get(*no).and_then(|it| it.session().cloned());
            self.ours.change(*no, |it| {
                it.key = None;
                it.loan.found_gone();
            });
            if let Some(session) = session {
                let lost = Lost::SessionGone {
                    session,
                    key_alone: false,
                    on: Subject::default(),
                };
                self.lose(now, *no, lost);
            }
        }
        if refused.other || !refused.ended.is_empty() {
            self.writes.unfounded += 1;
            // The agent's list may lag behind.
            let is_again = self.writes.unfounded > 1;
            self.reads.require(if is_again {
                Due::ConfirmedList
            } else {
                Due::List
            });
            if self.writes.unfounded == 2 {
                tracing::warn!(name: "writes-doubled", "Consul refuses writes of the record that it has applied: a proxy on the way may send requests twice");
            }
            if is_again {
                self.writes.pause.begin(now, &mut self.rng);
            }
        } else if refused.record {
            self.known.line.saw_others(now);
            self.writes.refused += 1;
            let is_old = step
                .record
                .as_ref()
                .is_some_and(|(base, _)| *base == self.known.record.index());
            if is_old {
                self.reads.require(Due::Record);
            }
            if self.writes.refused > 1 {
                let doubled = REFUSED.saturating_mul(1 << (self.writes.refused - 2).min(3));
                let wait = doubled.min(REFUSED_AT_MOST);
                let wait = jitter(wait / 2, wait / 2, &mut self.rng);
                self.writes.pause.hold_until(now + wait);
            }
        }
    }

    /// The key of one that had none is there. If the leader's list does not show it either, it is
    /// hidden: the callers are told, and what leaves goes with its session.
    fn found_there(&mut self, now: Instant, no: ContenderNo) {
        self.reads.require(Due::ConfirmedList);
        let before = self.ours.change(no, |it| {
            let before = (it.entry, it.stand());
            it.entry = Entry::Unseen;
            before
        });
        match before {
            Some((Entry::Unseen, stand)) if stand.leaves() => self.leave_behind(no),
            Some((Entry::Unseen, _)) => self.fail_incomplete(now),
            _ => {}
        }
    }

    fn failed(&mut self, now: Instant, step: &Step, failed: Failed) {
        let Failed { sent_at, error } = failed;
        if error.was_not_applied() || is_on(Defect::UnknownTakenForNotApplied) {
            self.writes.pause.begin(now, &mut self.rng);
        } else {
            tracing::debug!(name: "unknown-outcome", %error, "a write may have been applied");
            self.unknown(now, step);
        }
        if error.is_permanent() {
            // The callers in it fail, and so do those who would have sent the same.
            self.fail_waiting(now, sent_at, |_| Error::Request(error.clone()));
        }
        self.writes.held_up += u32::from(step.leaves());
        self.leaving_failed(now, &error);
        if matches!(error, RequestError::Denied { .. }) && self.lone.is_some() {
            self.leave_out(step);
        }
        self.note(now, Some(error));
    }

    /// List, then compose again from the same indices.
    fn unknown(&mut self, now: Instant, step: &Step) {
        if is_on(Defect::UnknownTakenForApplied) {
            for no in step.serves.iter().flatten() {
                self.ours.change(*no, |it| it.is_named = true);
            }
            self.grant(now, now, step, self.known.record.index());
        }
        for part in &step.parts {
            let locks_what_is_not_there = part.act.locks() && part.expected == Some(Index::ZERO);
            if locks_what_is_not_there {
                self.ours.change(part.no, |it| it.entry = Entry::Open);
            }
        }
        self.reads.require(Due::List);
        self.writes.pause.begin(now, &mut self.rng);
    }
}
