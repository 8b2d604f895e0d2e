//! The record's writes of one participant: one at a time, each made from a view that is newer than
//! the one before it.
//!
//! ```text
//!          plan()            poll                 true ─▶ its changes are made
//!  Quiet ─────────▶ Planned ──────▶ InFlight ──┬─ false ─▶ nothing is known to have changed
//!    ▲                                         └─ no answer ─▶ Unknown: the prefix is read again
//!    └──── a view that shows what became of it ◀───────────────┘
//! ```
//! A plain check-and-set does not return the new index, so every such write, whatever its answer, is
//! followed by a wait for a newer view. A transaction does: what it leaves is known at once.
//!
//! Sources: Consul's documentation of the KV endpoint (`cas` compares the `ModifyIndex`, 0 creates). An agent may apply a
//! write that its client gave up, seconds later: so an unknown outcome is settled by what a view shows, and a write from the
//! same index fences it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{CommandId, FencingToken, Index, SessionId};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::backoff::{Backoff, jitter};
use crate::machine::semaphore::admission::{ContenderNo, Turn, Write};
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::{Rest, Written};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Ledger {
    planned: Option<Planned>,
    in_flight: Option<Sent>,
    last: Option<Ended>,
    /// The claims of the write that is under way, or whose outcome is unknown.
    claims: Vec<Claim>,
    retry_at: Option<Instant>,
    conflicts: Backoff,
    failures: Backoff,
    patience: Option<Patience>,
    /// Who is first ahead while a slot is free, and when it is looked for; nothing where it is already.
    behind: Option<(SessionId, Option<Instant>)>,
    /// Until when others are taken to write the record at any moment.
    contended_until: Instant,
    /// Who was waited for without success, and until when not to wait for them again.
    overtaken: BTreeMap<SessionId, Instant>,
    #[cfg(feature = "unstable-defects")]
    refused: Option<Write>,
}

/// The write that is due.
#[derive(Clone, Debug)]
enum Planned {
    Write(Write),
    /// It only takes out those that leave, and is made when it goes out.
    Withdrawal,
}

/// For how long a free slot is left to those ahead.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// From when on one that takes it from behind them has been patient as well.
    shared_from: Instant,
    end: Instant,
}

/// A write under way.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Sent {
    pub(in crate::machine) write: Write,
    pub(in crate::machine) rest: Rest,
    pub(in crate::machine) encoding: Encoding,
    /// Whether an attempt from the same base before it may have been applied.
    pub(in crate::machine) is_repeated: bool,
}

/// An acquisition that a write admits.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) acquire: CommandId,
    pub(super) contenders: Vec<ContenderNo>,
    /// What the write replaces.
    pub(super) base: Index,
    /// Which of those that the write admits it is.
    pub(super) number: u64,
    /// Whether the record named them before: then only the write's answer tells whether it was applied.
    pub(super) was_listed: bool,
}

/// The last write.
#[derive(Clone, Copy, Debug)]
struct Ended {
    base: Index,
    at: Moment,
    is_unknown: bool,
    /// Whether this is so of it or of one from the same base before it.
    was_unknown: bool,
}

impl Claim {
    /// Its token, of a record that was created at this index.
    pub(super) fn token(&self, created: Index) -> FencingToken {
        if self.base == Index::ZERO {
            FencingToken::of_first_claim(created, self.number)
        } else {
            FencingToken::of_claim(self.base, self.number)
        }
    }
}

impl Ledger {
    pub(in crate::machine) fn new(settings: &Settings) -> Self {
        Self {
            planned: None,
            in_flight: None,
            last: None,
            claims: Vec::new(),
            retry_at: None,
            conflicts: Backoff::new(Duration::from_millis(2), Duration::from_millis(32)),
            failures: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
            patience: None,
            behind: None,
            contended_until: Instant::ORIGIN,
            overtaken: BTreeMap::new(),
            #[cfg(feature = "unstable-defects")]
            refused: None,
        }
    }

    /// Whether a decision can be made from a view with the record at `lock_index`: it is newer
    /// than the last write, or was asked for after that write had ended.
    pub(in crate::machine) fn may_plan(
        &self,
        now: Instant,
        lock_index: Index,
        view_sent: Moment,
    ) -> bool {
        let is_newer = self
            .last
            .is_none_or(|last| last.base != lock_index || view_sent > last.at);
        self.in_flight.is_none() && is_newer && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Whether a view that was asked for at `sent` was asked for after the last write.
    pub(in crate::machine) fn ended_before(&self, sent: Moment) -> bool {
        self.in_flight.is_none() && self.last.is_none_or(|last| last.at < sent)
    }

    /// Whether only another read can tell what became of the last write.
    pub(in crate::machine) fn needs_read(
        &self,
        lock_index: Option<Index>,
        view_sent: Moment,
    ) -> bool {
        self.last.is_some_and(|last| {
            last.is_unknown && lock_index == Some(last.base) && view_sent <= last.at
        })
    }

    /// Takes the plan of the moment, in place of any before it.
    pub(in crate::machine) fn plan(
        &mut self,
        now: Instant,
        write: Option<Write>,
        turn: Turn,
        rng: &mut fastrand::Rng,
    ) {
        self.planned = write.map(Planned::Write);
        #[cfg(feature = "unstable-defects")]
        self.plan_as_before();
        match turn {
            Turn::BehindOthers => {
                if self.patience.is_none() {
                    let end = now + jitter(PATIENCE, PATIENCE, rng);
                    let shared_from = now + PATIENCE / 2;
                    self.patience = Some(Patience { shared_from, end });
                }
            }
            Turn::NotYet => self.patience = None,
            Turn::Now => {}
        }
    }

    /// A slot is free, and this one is first ahead, or nobody that is known. Says whether it was left the slot for so long.
    pub(super) fn is_stuck_behind(
        &mut self,
        now: Instant,
        first: Option<&SessionId>,
        grace: Duration,
    ) -> bool {
        let Some(first) = first else {
            self.behind = None;
            return true;
        };
        if self
            .behind
            .as_ref()
            .is_none_or(|(session, _)| session != first)
        {
            self.behind = Some((first.clone(), Some(now + grace)));
        }
        let until = self.behind.as_mut().map(|(_, until)| until);
        until.is_some_and(|until| until.take_if(|until| *until <= now).is_some())
    }

    /// Whether a write of ours was refused not long ago, since another one came before it.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        now < self.contended_until
    }

    /// When the next write may go out after one that failed.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// No slot is left to anybody.
    pub(super) fn is_behind_nobody(&mut self) {
        self.behind = None;
    }

    /// Nobody of ours waits, and whether those that leave are to be taken out is all that there is to plan. Each that leaves
    /// would else cost a separate record, of all who hold.
    pub(super) fn plan_withdrawal(&mut self, is_due: bool) {
        self.planned = is_due.then_some(Planned::Withdrawal);
        self.patience = None;
    }

    /// Whether the write that is due is still to be made.
    pub(super) fn is_to_be_made(&self) -> bool {
        matches!(self.planned, Some(Planned::Withdrawal))
    }

    /// This is the write that is due.
    pub(super) fn made(&mut self, write: Option<Write>) {
        self.planned = write.map(Planned::Write);
    }

    /// The claims that are under way, or whose outcome is unknown: all of one write.
    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The write that has just gone out is for these.
    pub(super) fn set_claims(&mut self, claims: Vec<Claim>) {
        self.claims = claims;
    }

    /// What became of the claims is known, or of no more use.
    pub(super) fn take_claims(&mut self) -> Vec<Claim> {
        core::mem::take(&mut self.claims)
    }

    /// Takes the claim that is for this acquisition, if there is one.
    pub(super) fn take_claim_of(&mut self, acquire: CommandId) -> Option<Claim> {
        let at = self.claims.iter().position(|it| it.acquire == acquire)?;
        Some(self.claims.remove(at))
    }

    /// Whether the write that is under way makes the record, and admits at once: then its index tells their tokens.
    pub(super) fn is_first_claim(&self) -> bool {
        let write = self.in_flight.as_ref().map(|it| &it.write);
        write.is_some_and(|it| it.base == Index::ZERO && !it.admit.is_empty())
    }

    /// How many slots are left free by the write that is under way, if one is.
    pub(super) fn free_after(&self) -> Option<usize> {
        let record = &self.in_flight.as_ref()?.write.record;
        Some((record.limit() as usize).saturating_sub(record.holders().len()))
    }

    /// Nothing can be decided at the moment.
    pub(in crate::machine) fn unplan(&mut self) {
        self.planned = None;
    }

    pub(in crate::machine) fn patience_is_over(&self, now: Instant) -> bool {
        self.patience.is_some_and(|it| it.end <= now) && !is_on(Defect::PatienceInfinite)
    }

    /// Whether the one that takes the free slot now has waited for those ahead of it as we have: it does not
    /// barge, but passes them.
    pub(in crate::machine) fn is_being_patient(&self, now: Instant) -> bool {
        self.patience.is_some_and(|it| it.shared_from <= now)
    }

    /// Who need not be waited for at the moment.
    pub(in crate::machine) fn overtaken(&self, now: Instant) -> BTreeSet<SessionId> {
        let overtaken = self.overtaken.iter();
        overtaken
            .filter(|(_, until)| **until > now)
            .map(|(session, _)| session.clone())
            .collect()
    }

    /// Waits again for those who were overtaken long enough ago.
    pub(in crate::machine) fn forget_overtaken(&mut self, now: Instant) {
        self.overtaken.retain(|_, until| *until > now);
    }

    /// These were waited for without success.
    pub(in crate::machine) fn overtake(&mut self, now: Instant, sessions: Vec<SessionId>) {
        let until = now + OVERTAKEN_FOR;
        self.overtaken
            .extend(sessions.into_iter().map(|session| (session, until)));
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        let patience = self.patience.map(|it| it.end);
        let behind = self.behind.as_ref().and_then(|(_, until)| *until);
        let all = [self.retry_at, patience, behind];
        all.into_iter().flatten().min()
    }

    /// Whether a write is due.
    pub(in crate::machine) fn is_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// The write that is due, once it is made.
    pub(in crate::machine) fn planned(&self) -> Option<&Write> {
        match self.planned.as_ref()? {
            Planned::Write(write) => Some(write),
            Planned::Withdrawal => None,
        }
    }

    /// Sends the write that is due, and the rest of its transaction.
    pub(in crate::machine) fn transmit(
        &mut self,
        rest: Rest,
        settings: &Settings,
    ) -> Option<(&Write, Request)> {
        let Planned::Write(write) = self.planned.take()? else {
            return None;
        };
        let (encoding, request) = Encoding::write(&write, &rest, settings);
        self.retry_at = None;
        let is_repeated = self.is_unknown_from(write.base);
        let sent = Sent {
            write,
            rest,
            encoding,
            is_repeated,
        };
        let sent = self.in_flight.insert(sent);
        Some((&sent.write, request))
    }

    /// What the answer to the write under way says.
    pub(in crate::machine) fn read(
        &self,
        response: &Response,
        settings: &Settings,
    ) -> Result<Written, RequestError> {
        match &self.in_flight {
            Some(sent) => sent.encoding.written(response, &sent.rest, settings),
            None => Ok(Written::Refused {
                is_unfounded: false,
            }),
        }
    }

    /// It was applied.
    pub(in crate::machine) fn applied(&mut self, moment: Moment) -> Option<Sent> {
        self.conflicts.reset();
        self.failures.reset();
        self.patience = None;
        self.end(moment, false)
    }

    /// It was not applied, and is planned again.
    pub(in crate::machine) fn take_back(&mut self) -> Option<Sent> {
        self.in_flight.take()
    }

    /// It was refused: the record has changed since the view.
    pub(in crate::machine) fn refused(
        &mut self,
        now: Instant,
        moment: Moment,
        rng: &mut fastrand::Rng,
    ) -> Option<Sent> {
        self.retry_at = Some(now + self.conflicts.next(rng));
        self.contended_until = now + CONTENDED_FOR;
        #[cfg(feature = "unstable-defects")]
        if is_on(Defect::StaleDecision) {
            self.refused = self.in_flight.as_ref().map(|sent| sent.write.clone());
        }
        self.end(moment, false)
    }

    /// It failed. `is_unknown` when it may have been applied, or may yet be.
    pub(in crate::machine) fn failed(
        &mut self,
        now: Instant,
        moment: Moment,
        is_unknown: bool,
        rng: &mut fastrand::Rng,
    ) -> Option<Sent> {
        self.retry_at = Some(now + self.failures.next(rng));
        if is_unknown {
            self.end(moment, true)
        } else {
            self.in_flight.take()
        }
    }

    /// Whether a defect looks at each plan.
    #[cfg(feature = "unstable-defects")]
    pub(super) fn plans_as_before(&self) -> bool {
        self.refused.is_some()
    }

    #[cfg(feature = "unstable-defects")]
    fn plan_as_before(&mut self) {
        if is_on(Defect::StaleDecision)
            && let Some(Planned::Write(planned)) = &mut self.planned
            && let Some(refused) = self.refused.take()
        {
            let base = planned.base;
            *planned = Write { base, ..refused };
        }
    }

    fn is_unknown_from(&self, base: Index) -> bool {
        self.last
            .is_some_and(|last| last.was_unknown && last.base == base)
    }

    fn end(&mut self, at: Moment, is_unknown: bool) -> Option<Sent> {
        let sent = self.in_flight.take()?;
        let was_unknown = is_unknown || self.is_unknown_from(sent.write.base);
        self.last = Some(Ended {
            base: sent.write.base,
            at,
            is_unknown,
            was_unknown,
        });
        Some(sent)
    }
}

/// How long the first of the queue leaves a free slot to those ahead of it, and up to as long
/// again: enough for a round of requests of a live contender.
const PATIENCE: Duration = Duration::from_millis(500);

/// For how long after a write that was refused others are taken to write the record at any moment.
const CONTENDED_FOR: Duration = Duration::from_secs(1);

/// How long those who left a slot unused are not waited for. A waiter that crashed stays in the queue
/// for up to twice its TTL; it must not cost everybody behind it their patience at every turn.
const OVERTAKEN_FOR: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
