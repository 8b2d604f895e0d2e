//! Proofs that the majority saw our sessions alive (rule 12).
//!
//! A renewal's answer alone proves nothing to others: a former leader may give it. So each holder's
//! key is read with the leader's confirmation as often as its session is renewed, together with the
//! record. Proofs don't wait for each other: while one is unanswered, others follow more often.

use core::time::Duration;
use std::collections::VecDeque;

use super::Settings;
use super::contender::ContenderNo;
use crate::api::{Operation, Txn};
use crate::http::{Priority, Request};
use crate::id::SessionId;
use crate::machine::process::reader::backoff::jitter;
use crate::time::Instant;

/// Whose keys were not read yet in the present round, and what is under way.
#[derive(Clone, Debug)]
pub(super) struct Proofs {
    /// After a renewal: between a sixteenth and a fifteenth of the TTL.
    every: Duration,
    /// While one is unanswered for so long, both follow each other so closely.
    hurry: Duration,
    due: Option<Instant>,
    last: Instant,
    waiting: VecDeque<ContenderNo>,
    next: u32,
    under_way: Vec<Proof>,
}

/// A read of the keys of some holders.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    no: u32,
    pub(super) sent_at: Instant,
    pub(super) asked: Vec<ContenderNo>,
}

/// The most under way: a silent agent holds their connections.
const MOST_UNDER_WAY: usize = 32;

impl Proofs {
    pub(super) fn new(settings: &Settings) -> Self {
        let ttl = settings.session.proved_time();
        Self {
            every: ttl / 15,
            hurry: ttl / 40,
            due: None,
            last: Instant::ORIGIN,
            waiting: VecDeque::new(),
            next: 0,
            under_way: Vec::new(),
        }
    }

    /// Somebody holds from now on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.every);
    }

    /// Nobody holds any longer.
    pub(super) fn end(&mut self) {
        self.due = None;
        self.waiting.clear();
    }

    /// When the next one is sent.
    pub(super) fn due_at(&self) -> Option<Instant> {
        if self.under_way.len() >= MOST_UNDER_WAY {
            return None;
        }
        if !self.waiting.is_empty() {
            return Some(self.last);
        }
        let due = self.due?;
        let is_unanswered = !self.under_way.is_empty();
        Some(if is_unanswered {
            due.min(self.last + self.hurry)
        } else {
            due
        })
    }

    /// Those whose keys are read next, if that is due. `holders`: all of them, at the beginning of a
    /// round.
    pub(super) fn next(
        &mut self,
        now: Instant,
        holders: impl FnOnce() -> VecDeque<ContenderNo>,
        rng: &mut fastrand::Rng,
    ) -> Option<(u32, Vec<ContenderNo>)> {
        self.due_at().filter(|at| *at <= now)?;
        if self.waiting.is_empty() {
            self.waiting = holders();
            let spread = self.every / 16;
            self.due = Some(now + jitter(spread * 15, spread, rng));
        }
        if self.waiting.is_empty() {
            self.due = None;
            return None;
        }
        // One operation for the record.
        let count = self.waiting.len().min(Txn::MAX_OPERATIONS - 1);
        let asked: Vec<ContenderNo> = self.waiting.drain(..count).collect();
        self.next = self.next.wrapping_add(1);
        self.last = now;
        self.under_way.push(Proof {
            no: self.next,
            sent_at: now,
            asked: asked.clone(),
        });
        Some((self.next, asked))
    }

    /// Its answer is here.
    pub(super) fn answered(&mut self, no: u32) -> Option<Proof> {
        let at = self.under_way.iter().position(|it| it.no == no)?;
        Some(self.under_way.remove(at))
    }
}

/// The reads of these keys and of the record. A plain `get` of a missing key would refuse all.
pub(super) fn request(sessions: &[SessionId], settings: &Settings) -> Request {
    let keys = sessions.iter().map(|it| settings.prefix.contender_key(it));
    let keys: Vec<String> = keys.chain([settings.prefix.record_key()]).collect();
    let reads = keys.iter().map(|key| Operation::GetFrom { key });
    let operations: Vec<Operation<'_>> = reads.collect();
    let txn = Txn {
        operations: &operations,
    };
    let request = txn.confirmed_read(settings.scope());
    request.with_priority(Priority::Renewal)
}
