//! One participant's writes of the record: one at a time, each from a view that is newer than the
//! last write.
//!
//! ```text
//!          plan()            poll                 true ─▶ its changes are made
//!  Quiet ─────────▶ Planned ──────▶ InFlight ──┬─ false ─▶ nothing is known to have changed
//!    ▲                                         └─ no answer ─▶ Unknown: the prefix is read again
//!    └──── a view that shows what became of it ◀───────────────┘
//! ```
//! The answer to a transaction has the new state. Where the token may not read it, a newer view must
//! follow.
//!
//! Sources: Consul's documentation of the KV endpoint (`cas` compares the `ModifyIndex`, 0
//! creates). An agent may apply a given-up write seconds later. So a view settles an unknown
//! outcome, and a write from the same index fences it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{CommandId, FencingToken, Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::backoff::{Backoff, jitter};
use crate::machine::semaphore::admission::{ContenderNo, Turn, Write};
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::{self, Rest, Written};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Ledger {
    planned: Option<Planned>,
    /// What it follows from, if more of ours can only add to it.
    basis: Option<Basis>,
    in_flight: Option<Sent>,
    last: Option<Ended>,
    /// The claims of the write that is under way or has an unknown outcome.
    claims: Vec<Claim>,
    retry_at: Option<Instant>,
    conflicts: Backoff,
    failures: Backoff,
    /// The pace while writes are refused that were applied.
    doubled: Backoff,
    patience: Option<Patience>,
    /// The first waiter ahead while a slot is free, and when to check it, until that is done.
    behind: Option<(SessionId, Option<Instant>)>,
    /// Until when others are expected to write the record at any moment.
    contended_until: Instant,
    /// Those who were waited for without success, and until when they are not waited for again.
    overtaken: BTreeMap<SessionId, Instant>,
    #[cfg(feature = "unstable-defects")]
    refused: Option<Write>,
}

/// The write that is due.
#[derive(Clone, Debug)]
enum Planned {
    Write(Write),
    /// It is made when it is sent.
    ToBeMade,
}

/// What a plan follows from, besides our own callers and contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Basis {
    /// The index of the view, and that of its record.
    pub(super) version: Index,
    pub(super) base: Index,
    pub(super) sent: Moment,
}

/// How long a free slot is left to those ahead.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// From this time on, another one that takes the slot from behind them has been patient as
    /// well.
    shared_from: Instant,
    end: Instant,
}

/// A write under way.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Sent {
    pub(in crate::machine) write: Write,
    pub(in crate::machine) rest: Rest,
    /// Whether an earlier attempt from the same base may have been applied.
    pub(in crate::machine) is_repeated: bool,
}

/// An acquisition that a write admits.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) acquire: CommandId,
    pub(super) contenders: Vec<ContenderNo>,
    /// The index of the record that the write replaces.
    pub(super) base: Index,
    /// Its number among the acquisitions that the write admits.
    pub(super) number: u64,
    /// Whether the record named them before. Then only the write's answer tells whether it was
    /// applied.
    pub(super) was_listed: bool,
}

/// The last write.
#[derive(Clone, Copy, Debug)]
struct Ended {
    base: Index,
    at: Moment,
    is_unknown: bool,
    /// Whether this is true of it or of an earlier one from the same base.
    was_unknown: bool,
}

impl Claim {
    /// Its token. `created` is the creation index of the record.
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
            basis: None,
            in_flight: None,
            last: None,
            claims: Vec::new(),
            retry_at: None,
            conflicts: Backoff::new(Duration::from_millis(1), Duration::from_millis(32)),
            failures: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
            doubled: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
            patience: None,
            behind: None,
            contended_until: Instant::ORIGIN,
            overtaken: BTreeMap::new(),
            #[cfg(feature = "unstable-defects")]
            refused: None,
        }
    }

    /// Whether a view with the record at `lock_index` can be used for a decision: it is newer than
    /// the last write, or was requested after that write had ended.
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

    /// Whether a view that was requested at `sent` was requested after the last write.
    pub(in crate::machine) fn ended_before(&self, sent: Moment) -> bool {
        self.in_flight.is_none() && self.last.is_none_or(|last| last.at < sent)
    }

    /// Whether only another read can show the outcome of the last write.
    pub(in crate::machine) fn needs_read(
        &self,
        lock_index: Option<Index>,
        view_sent: Moment,
    ) -> bool {
        self.last.is_some_and(|last| {
            last.is_unknown && lock_index == Some(last.base) && view_sent <= last.at
        })
    }

    /// Replaces the plan. `basis` is what it follows from, if more of ours can only add to it.
    pub(in crate::machine) fn plan(
        &mut self,
        now: Instant,
        write: Option<Write>,
        turn: Turn,
        basis: Option<Basis>,
        rng: &mut fastrand::Rng,
    ) {
        self.basis = basis.filter(|_| write.is_some());
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

    /// A slot is free, and `first` is the first waiter ahead, if one is known. Returns whether the
    /// slot was left to it for `grace`.
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

    /// Whether a write of ours was recently refused because another one came first.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        now < self.contended_until
    }

    /// When the next write may be sent after a failure.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// No slot is left to anybody.
    pub(super) fn is_behind_nobody(&mut self) {
        self.behind = None;
    }

    /// Nobody of ours waits. `is_due` says whether those that leave must be removed. Making the
    /// write now would cost a copy of the whole record for each that leaves.
    pub(super) fn plan_withdrawal(&mut self, is_due: bool) {
        self.basis = None;
        self.planned = is_due.then_some(Planned::ToBeMade);
        self.patience = None;
    }

    /// Whether the planned write is still to be made.
    pub(super) fn is_to_be_made(&self) -> bool {
        matches!(self.planned, Some(Planned::ToBeMade))
    }

    /// Whether a write is planned that more of ours can only add to. Then it is made when it is
    /// sent: if thousands come or leave at once, making it for each would take as long as all
    /// together for each of them.
    pub(super) fn puts_off_plan(&mut self, basis: Basis) -> bool {
        let is_same = self.planned.is_some() && self.basis == Some(basis);
        #[cfg(feature = "unstable-defects")]
        let is_same = is_same && !is_on(Defect::StaleDecision);
        if is_same {
            self.planned = Some(Planned::ToBeMade);
        }
        is_same
    }

    /// Sets the write that was planned.
    pub(super) fn made(&mut self, write: Option<Write>) {
        self.planned = write.map(Planned::Write);
    }

    /// The claims that are under way or have an unknown outcome. All belong to one write.
    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Sets the claims of the write that was just sent.
    pub(super) fn set_claims(&mut self, claims: Vec<Claim>) {
        self.claims = claims;
    }

    /// The outcome of the claims is known, or no longer needed.
    pub(super) fn take_claims(&mut self) -> Vec<Claim> {
        core::mem::take(&mut self.claims)
    }

    /// Whether a write is under way.
    pub(super) fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The record has changed since the claims were made. Returns those for which nothing but a
    /// view can tell the outcome: not those whose write may still be answered.
    pub(super) fn take_settled_claims(&mut self) -> Vec<Claim> {
        let is_asked = self.in_flight.is_some();
        let (open, settled) = core::mem::take(&mut self.claims)
            .into_iter()
            .partition(|claim| is_asked && claim.was_listed);
        self.claims = open;
        settled
    }

    /// Removes the claim of this acquisition, if there is one.
    pub(super) fn take_claim_of(&mut self, acquire: CommandId) -> Option<Claim> {
        let at = self.claims.iter().position(|it| it.acquire == acquire)?;
        Some(self.claims.remove(at))
    }

    /// Whether the write under way creates the record and also admits. Then its index gives the
    /// tokens.
    pub(super) fn is_first_claim(&self) -> bool {
        let write = self.in_flight.as_ref().map(|it| &it.write);
        write.is_some_and(|it| it.base == Index::ZERO && !it.admit.is_empty())
    }

    /// How many slots the write under way leaves free, if there is one.
    pub(super) fn free_after(&self) -> Option<usize> {
        Some(self.in_flight.as_ref()?.write.record.free())
    }

    /// Nothing can be decided at the moment.
    pub(in crate::machine) fn unplan(&mut self) {
        self.planned = None;
        self.basis = None;
    }

    pub(in crate::machine) fn patience_is_over(&self, now: Instant) -> bool {
        self.patience.is_some_and(|it| it.end <= now) && !is_on(Defect::PatienceInfinite)
    }

    /// Whether another one that takes the free slot now has waited for those ahead as we have. Then
    /// it has passed them, and did not barge.
    pub(in crate::machine) fn is_being_patient(&self, now: Instant) -> bool {
        self.patience.is_some_and(|it| it.shared_from <= now)
    }

    /// Those who are not waited for at the moment.
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

    /// The planned write, once it is made.
    pub(in crate::machine) fn planned(&self) -> Option<&Write> {
        match self.planned.as_ref()? {
            Planned::Write(write) => Some(write),
            Planned::ToBeMade => None,
        }
    }

    /// Sends the planned write and the rest of its transaction.
    pub(in crate::machine) fn transmit(
        &mut self,
        rest: Rest,
        settings: &Settings,
    ) -> Option<(&Write, Request)> {
        let Planned::Write(write) = self.planned.take()? else {
            return None;
        };
        self.basis = None;
        let request = steps::write(&write, &rest, settings);
        self.retry_at = None;
        let is_repeated = self.is_unknown_from(write.base);
        let sent = Sent {
            write,
            rest,
            is_repeated,
        };
        let sent = self.in_flight.insert(sent);
        Some((&sent.write, request))
    }

    /// Reads the answer to the write under way.
    pub(in crate::machine) fn read(
        &self,
        response: &Response,
        settings: &Settings,
    ) -> Result<Written, RequestError> {
        match &self.in_flight {
            Some(sent) => steps::written(response, &sent.rest, settings),
            None => Ok(Written::Refused {
                is_unfounded: false,
            }),
        }
    }

    /// It was applied.
    pub(in crate::machine) fn applied(&mut self, moment: Moment) -> Option<Sent> {
        self.was_applied();
        self.end(moment, false)
    }

    /// It was applied, but only a read shows what its grants need.
    pub(super) fn applied_unseen(&mut self, moment: Moment) -> Option<Sent> {
        self.was_applied();
        self.end(moment, true)
    }

    fn was_applied(&mut self) {
        self.conflicts.reset();
        self.failures.reset();
        self.doubled.reset();
        self.patience = None;
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

    /// The refused write was applied, and no other has come first: each of ours may come twice. Returns whether that is
    /// new.
    pub(super) fn refused_after_all(&mut self, now: Instant, rng: &mut fastrand::Rng) -> bool {
        let is_new = self.doubled.is_fresh();
        self.retry_at = Some(now + self.doubled.next(rng));
        is_new
    }

    /// It failed. `is_unknown` says whether it may have been applied, or may still be.
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

    /// Whether a defect wants every plan.
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

/// How long the first in the queue leaves a free slot to those ahead, plus up to as long again. It
/// is enough for a round of requests of a live contender.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long after a refused write others are expected to write the record at any moment.
const CONTENDED_FOR: Duration = Duration::from_secs(1);

/// How long those who left a slot unused are not waited for. A crashed waiter stays in the queue
/// for up to twice its TTL. It must not cost everybody behind it their patience at every turn.
const OVERTAKEN_FOR: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
