//! The writes of the record: the other parts of their transactions, and the effects of their
//! answers.

use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::http::{Priority, Request, Response};
use crate::id::SessionId;
use crate::machine::notice::Notice;
use crate::machine::process::moment::Moment;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::{ContenderNo, Write};
use crate::machine::semaphore::contender::Contender;
use crate::machine::semaphore::knowledge::{Observed, RecordLook};
use crate::machine::semaphore::ledger::{Claim, Sent};
use crate::machine::semaphore::room::room_beside;
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::steps::{After, Rest, Step, Written};
use crate::time::Instant;
use crate::view::{Claimed, ContenderFlags, Key, View};

impl Participant {
    /// The write of the record, if it is due.
    pub(super) fn write(&mut self, now: Instant) -> Option<Request> {
        self.make_planned(now);
        let write = self.ledger.planned()?;
        let pruned: Vec<_> = self.pruned(write).map(str::to_owned).collect();
        let mut rest = self.rest(now, write);
        if !pruned.is_empty() {
            tracing::debug!(name: "prune", ?pruned, "takes dead holders out of the record");
            rest.pruned = pruned;
        }
        let known = self.knowledge.view().and_then(View::record);
        if let Some(known) = known.filter(|it| it.limit() != write.record.limit()) {
            let (from, to) = (known.limit(), write.record.limit());
            tracing::debug!(name: "limit-replaced", from, to, "writes another limit where nobody holds");
        }
        let claims = self.claims_of(write);
        let leaving = rest.leaving();
        let entering: Vec<_> = rest.entering().collect();
        let (write, request) = self.ledger.transmit(rest, &self.settings)?;
        for no in &write.withdraw {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.leave_by_write(&leaving);
            }
        }
        for no in &write.admit {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.claim(write.base);
            }
        }
        for no in entering {
            if let Some(mut contender) = self.roster.get_mut(no) {
                contender.enter_by_write();
            }
        }
        // A slot that is given back goes to somebody else.
        let is_release = !write.withdraw.is_empty();
        self.ledger.set_claims(claims);
        let urgent = is_release.then_some(Priority::Urgent);
        let priority = urgent.unwrap_or(request.priority());
        Some(request.with_priority(priority))
    }

    /// Makes the planned write, if that was put off.
    fn make_planned(&mut self, now: Instant) {
        if !self.ledger.is_to_be_made() {
            return;
        }
        let observed = self.knowledge.current();
        let write = observed.and_then(|observed| self.judge(now, observed, |it| it.plan().0));
        if write.is_some() {
            self.ledger.made(write);
        } else {
            self.ledger.unplan();
            self.plan(now);
        }
    }

    /// The claims of the contenders that it admits: for the first in our queue, as many as each
    /// wants.
    fn claims_of(&self, write: &Write) -> Vec<Claim> {
        let mut left = &write.admit[..];
        let mut claims = Vec::new();
        for (number, ticket) in (0..).zip(self.callers.queue().first()) {
            let Some((contenders, rest)) = left.split_at_checked(ticket.permits as usize) else {
                break;
            };
            if contenders.is_empty() {
                break;
            }
            left = rest;
            let number = if is_on(Defect::TokenRepeated) {
                0
            } else {
                number
            };
            claims.push(Claim {
                acquire: ticket.id,
                contenders: contenders.to_vec(),
                base: write.base,
                number,
                was_listed: self.lists_any(contenders),
            });
        }
        claims
    }

    /// The other parts of the transaction: admitted contenders are tied to their keys, pruned ones
    /// have no key, and keys of leaving ones are deleted.
    fn rest(&self, now: Instant, write: &Write) -> Rest {
        let mut rest = Rest::default();
        let is_full = write.record.holders().len() >= write.record.limit() as usize;
        let claim = if is_full { Claimed::Last } else { Claimed::One };
        for no in &write.admit {
            let Some(contender) = self.roster.get(*no) else {
                continue;
            };
            let Some(session) = contender.session_id().cloned() else {
                continue;
            };
            let flags = contender.flags();
            if contender.key_index().is_none() {
                rest.steps.push(Step::Enter(*no, session, flags));
                continue;
            }
            rest.steps.push(Step::Tied(session.clone()));
            if !contender.is_handing_over() {
                let flags = ContenderFlags { claim, ..flags };
                rest.steps.push(Step::Claim(*no, session, flags));
            }
        }
        rest.reads = self.reads_along(write);
        rest.steps.extend(self.pruned_by(write));
        let leaving = write.withdraw.iter().filter_map(|no| {
            let contender = self.roster.get(*no)?;
            contender.key_index()?;
            Some(Step::Leave(contender.session_id()?.clone()))
        });
        // Those that don't fit are deleted one by one.
        let room = room_beside(&write.record, &self.settings);
        let left = room.saturating_sub(rest.steps.len());
        rest.steps.extend(leaving.take(left));
        let left = room.saturating_sub(rest.steps.len());
        rest.steps.extend(self.joining(now, write).take(left));
        rest
    }

    /// Newcomers that only enter the queue, behind others of ours.
    fn joining(&self, now: Instant, write: &Write) -> impl Iterator<Item = Step> {
        let newcomers = if self.outlook().queues_already() {
            self.newcomers(now)
        } else {
            Vec::new()
        };
        let others = newcomers
            .into_iter()
            .filter(|(no, _)| !write.admit.contains(no));
        others.filter_map(|(no, session)| {
            let flags = self.roster.get(no)?.flags();
            Some(Step::Enter(no, session, flags))
        })
    }

    /// Whether to read the prefix, too, so that newcomers get their turn: if others of ours
    /// continue, and the prefix is small.
    fn reads_along(&self, write: &Write) -> bool {
        let contenders = |no: &&ContenderNo| self.roster.get(**no);
        let passes = write.admit.iter().filter_map(|no| contenders(&no));
        let leaves = write.withdraw.iter().filter_map(|no| contenders(&no));
        let goes_on = passes.into_iter().any(Contender::is_handing_over)
            || leaves.into_iter().any(Contender::keeps_session)
            || !write.withdraw.is_empty() && !self.callers.queue().is_empty();
        let is_small = |observed: &Observed| observed.view.contenders().len() <= SMALL;
        goes_on && self.knowledge.newest().is_some_and(is_small)
    }

    /// Whether the record already names any of these.
    fn lists_any(&self, numbers: &[ContenderNo]) -> bool {
        let record = self.knowledge.record();
        numbers
            .iter()
            .filter_map(|no| self.roster.get(*no)?.session_id())
            .any(|session| record.is_some_and(|record| record.holds(session.as_str())))
    }

    /// Everyone else whom the write removes from the record.
    fn pruned(&self, write: &Write) -> impl Iterator<Item = &str> {
        let record = self.knowledge.record().into_iter();
        let taken = record.flat_map(|record| record.beyond(&write.record));
        taken.filter(|holder| !self.roster.is_ours(holder))
    }

    /// Checks that pruned holders have no live key.
    fn pruned_by(&self, write: &Write) -> Vec<Step> {
        let Some(view) = self.knowledge.view() else {
            return Vec::new();
        };
        self.pruned(write)
            .filter_map(|holder| SessionId::new(holder).ok())
            .filter_map(|session| match view.key(&session) {
                Key::Absent => Some(Step::Absent(session)),
                Key::Free(_) => Some(Step::Free(session)),
                Key::Tied(_) | Key::Taken => None,
            })
            .collect()
    }

    pub(super) fn handle_write(
        &mut self,
        now: Instant,
        sent_at: (Moment, Instant),
        answer: Result<&Response, RequestError>,
    ) {
        self.watch.credit();
        let moment = self.moment();
        let written = answer.and_then(|response| self.ledger.read(response, &self.settings));
        match written {
            // What a grant needs must be read first: the index of a new record, from which its
            // tokens come.
            Ok(Written::Applied(None)) if self.ledger.is_first_claim() => {
                self.note(now, None);
                let sent = self.ledger.applied_unseen(moment);
                self.write_failed(now, sent.as_ref(), true);
                self.look(now);
            }
            Ok(Written::Applied(after)) => {
                self.note(now, None);
                if let Some(sent) = self.ledger.applied(moment) {
                    self.claimants_lived(&sent, sent_at.1);
                    if !sent.rest.pruned.is_empty() {
                        let sessions = sent.rest.pruned.clone();
                        let notices = self.callers.notices_mut();
                        notices.tell(|| Notice::Pruned { sessions });
                    }
                    self.apply(now, &sent, after.as_deref());
                    if let Some(after) = after {
                        self.learn(now, sent_at, sent, *after);
                    }
                }
            }
            Ok(Written::Refused { is_unfounded }) => {
                self.note(now, None);
                let is_named_already = self.is_named_already();
                let sent = self.ledger.refused(now, moment, &mut self.rng);
                if is_named_already && self.ledger.refused_after_all(now, &mut self.rng) {
                    tracing::warn!(name: "writes-doubled", "Consul refuses writes of the record that it has applied: a proxy on the way may send requests twice");
                }
                self.write_failed(now, sent.as_ref(), false);
                self.claim_refused(sent.as_ref(), is_unfounded);
                if is_unfounded {
                    tracing::debug!(name: "write-unfounded", "a transaction knew better than the view");
                    self.vanished.forget();
                }
                // A leaving contender does not wait for a poll, whose answer may be lost.
                let leaves = self.roster.has_any(Group::Withdrawing);
                if is_unfounded {
                    // Another read of the prefix shows why.
                    self.look(now);
                } else if self.outlook().is_contended(now) {
                    // What is read just before the next attempt is useful for it.
                    self.watch
                        .read_record(self.ledger.retry_at().unwrap_or(now));
                } else if leaves || self.watch.is_looking_ahead() {
                    self.look(now);
                } else {
                    self.knowledge.set_record_look(RecordLook::Now);
                }
            }
            Err(error) if is_on(Defect::UnknownTakenForApplied) && !error.was_not_applied() => {
                if let Some(sent) = self.ledger.applied(moment) {
                    self.apply(now, &sent, None);
                }
            }
            Err(error) => {
                let is_unknown = !error.was_not_applied();
                let sent = self.ledger.failed(now, moment, is_unknown, &mut self.rng);
                self.write_failed(now, sent.as_ref(), is_unknown);
                if is_unknown {
                    tracing::debug!(name: "unknown-outcome", %error, "a write of the record may have been applied");
                    self.look(now);
                } else if let Some(sent) = &sent {
                    self.claim_not_applied(sent);
                }
                if is_on(Defect::UnknownTakenForNotApplied) {
                    let claims = self.ledger.take_claims().into_iter();
                    for no in claims.flat_map(|claim| claim.contenders) {
                        if let Some(mut contender) = self.roster.get_mut(no) {
                            contender.withdrawn(moment);
                        }
                    }
                }
                for no in self.roster.numbers_of(Group::Withdrawing) {
                    if let Some(mut contender) = self.roster.get_mut(no) {
                        contender.withdrawal_failed(&error);
                    }
                }
                // What is refused with a claim may not be refused without it: the record is smaller.
                let has_claim = sent.is_some_and(|sent| !sent.write.admit.is_empty());
                if !(has_claim && error.is_permanent()) {
                    self.cannot_withdraw(now, &error);
                }
                if error.is_permanent() {
                    self.fail_waiting(now, |_| Error::Request(error.clone()));
                }
                self.note(now, Some(error));
            }
        }
    }

    /// It was applied, so each admitted contender was tied to its key then.
    fn claimants_lived(&mut self, sent: &Sent, sent_at: Instant) {
        for no in &sent.write.admit {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.lived(sent_at);
            }
        }
    }

    fn write_failed(&mut self, now: Instant, sent: Option<&Sent>, is_unknown: bool) {
        let numbers = |sent: &Sent| {
            let write = &sent.write;
            let known = write.admit.iter().chain(&write.withdraw).copied();
            known.chain(sent.rest.entering()).collect()
        };
        let numbers: Vec<ContenderNo> = sent.map(numbers).unwrap_or_default();
        let moment = self.moment();
        for no in &numbers {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.write_failed(now, moment, is_unknown);
            }
        }
    }

    /// The record has changed since the view.
    fn claim_refused(&mut self, sent: Option<&Sent>, is_unfounded: bool) {
        let Some(sent) = sent else {
            return;
        };
        // A write that was refused because of the record's index can't be applied later, and was
        // not before.
        if !is_unfounded {
            self.claim_not_applied(sent);
        }
        if let Some(observed) = self.knowledge.newest_mut()
            && observed.view.record_index() == sent.write.base
        {
            observed.outdate();
        }
    }

    /// Whether the write under way admits somebody whom the record names already, though each write that did so was
    /// refused.
    fn is_named_already(&self) -> bool {
        let passes = |no: &ContenderNo| {
            let contender = self.roster.get(*no);
            contender.is_some_and(Contender::is_handing_over)
        };
        let mut claims = self.ledger.claims().iter();
        claims.any(|claim| claim.was_listed && !claim.contenders.iter().any(passes))
    }

    /// A write was certainly not applied. So those whom it admits are not in the record, unless an earlier attempt has
    /// put them there.
    fn claim_not_applied(&mut self, sent: &Sent) {
        if sent.is_repeated {
            return;
        }
        let moment = self.moment();
        for no in &sent.write.admit {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.claim_refused(moment, sent.write.base);
            }
        }
        self.ledger.take_claims();
    }

    /// Updates what is known about the prefix from our own write, without a read.
    fn learn(&mut self, now: Instant, sent_at: (Moment, Instant), sent: Sent, after: After) {
        if let Some(view) = after.view {
            self.watch.skip_to(view.index());
            self.knowledge.confirm(now);
            self.accept(now, view, sent_at, true);
            return;
        }
        self.knowledge.confirm(now);
        let moment = self.moment();
        let Some(observed) = self.knowledge.newest_mut() else {
            return;
        };
        // Otherwise a view has overtaken the answer.
        if observed.view.record_index() != sent.write.base {
            return;
        }
        let locked = after.locked.into_iter().map(|(_, key)| key);
        // In this order no state shows a holder without a key, which would be searched for.
        observed.view.lock_keys(locked.collect());
        observed.view.write_record(sent.write.record, after.index);
        for step in &sent.rest.steps {
            if let Step::Leave(session) = step {
                observed.view.delete_key(session);
            }
        }
        observed.update(now, moment);
    }
}

/// The most contenders of a prefix that is read together with a write.
const SMALL: usize = 16;
