//! What is sent next: one write, composed from what is known at that moment, one read, and one poll.

use super::capacity::Capacity;
use super::contender::{ContenderNo, Stand};
use super::reads::{Due, Target};
use super::step::{Act, Along, Part, Plan, Step};
use super::{From, Participant, step};
use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::machine::contract::Transmit;
use crate::machine::process::moment::Moment;
use crate::machine::process::requests::Sender;
use crate::machine::process::service::Service;
use crate::time::Instant;

impl Participant {
    /// The next write, composed from what is known at this moment. Nothing is queued. `Err`: the
    /// record must be read before (rule 9).
    pub(super) fn compose(&mut self, now: Instant) -> Option<Result<Step, Due>> {
        if self.writes.step.is_some() || self.reads.due() >= Due::List {
            return None;
        }
        let situation = self.situation(now);
        let handovers = situation.handovers();
        let plan = situation.plan(handovers.served);
        let is_record_due = !plan.is_empty() && self.reads.due() == Due::Nothing;
        // Rule 3. A handover has no check-and-set of the record, so nobody else makes it fail.
        let is_its_turn = !self.writes.was_handover || !is_record_due;
        if is_its_turn && !handovers.groups.is_empty() {
            return Some(Ok(self.compose_handover(handovers.groups)));
        }
        if !is_record_due {
            return None;
        }
        // Rule 9. A release that is refused costs more than a read.
        let is_fresh = self.known.record.seen_at() + self.reads.round_trip() >= now;
        if plan.removes_names() && situation.others_may_write() && !is_fresh {
            return Some(Err(Due::Record));
        }
        Some(Ok(self.compose_record_write(&plan)))
    }

    pub(super) fn part(&mut self, no: ContenderNo, act: Act) -> Option<Part> {
        let part = self.ours.change(no, |contender| {
            let flags = step::flags_of(act, contender.touch());
            let is_unfenced = is_on(Defect::ReleaseNotFenced) && matches!(act, Act::Exit(_));
            let is_taken = contender.is_taken || is_unfenced;
            Some(Part {
                no,
                session: contender.session()?.clone(),
                act,
                expected: (!is_taken).then(|| contender.index()),
                flags,
            })
        });
        part.flatten()
    }

    fn compose_handover(&mut self, groups: Vec<Vec<ContenderNo>>) -> Step {
        let all: Vec<ContenderNo> = groups.iter().flatten().copied().collect();
        // Each takes a check and a lock, beside the record that is read along.
        let most = Capacity::most_handed_over();
        let mut served = Vec::new();
        let mut count = 0;
        for group in groups {
            count += group.len();
            if count > most {
                break;
            }
            served.push(group);
        }
        let parts = all
            .into_iter()
            .filter(|no| served.iter().flatten().any(|it| it == no));
        let parts: Vec<Part> = parts
            .filter_map(|no| self.part(no, Act::HandOver))
            .collect();
        Step::new(parts, served, Along::Record)
    }

    fn compose_record_write(&mut self, plan: &Plan) -> Step {
        let mut parts = Vec::new();
        for (no, exit) in &plan.exits {
            parts.extend(self.part(*no, Act::Exit(*exit)));
        }
        let mut along = Along::Nothing;
        // Rule 2. Others that the newest list does not show came after those who had come before it.
        // Consul serves nobody while it goes through thousands of keys.
        let newest = self.callers.queue().newest();
        let is_shown = newest.is_some_and(|it| self.known.shown >= Moment(it.0));
        for no in plan.claims.iter().flatten() {
            let is_newcomer = self.ours.get(*no).is_some_and(|it| it.key.is_none());
            let act = if is_newcomer {
                if !is_shown {
                    along = Along::Prefix;
                }
                Act::EnterAndClaim
            } else {
                Act::Claim
            };
            parts.extend(self.part(*no, act));
        }
        for no in plan.entries.iter().flatten() {
            along = Along::Prefix;
            parts.extend(self.part(*no, Act::Enter));
        }
        if plan.limit.is_some() {
            tracing::debug!(name: "limit-replaced", "nobody holds, so a claim writes another limit");
        }
        let pruner = plan.pruner.and_then(|no| {
            let session = self.ours.get(no)?.session()?.clone();
            Some((no, session))
        });
        Step::new(parts, plan.claims.clone(), along).with_record(
            &self.known.record,
            plan,
            pruner,
            self.settings.limit,
        )
    }

    /// Rule 6. Whom the poll watches, from which index.
    pub(super) fn watched(&self, now: Instant) -> Option<(Target, Index)> {
        if self.is_record_unreadable() && !self.ours.is_empty() {
            return Some((Target::Record, self.known.record.polled_from()));
        }
        if self.is_looked_after() {
            return None;
        }
        let situation = self.situation(now);
        if let Some(first) = situation.first_waiter() {
            let created = first.created?;
            return Some(match self.known.line.just_ahead(created) {
                None => (Target::Record, self.known.record.polled_from()),
                // Another program changes its key after the record, so its key alone does not tell
                // when the record moves.
                Some(ahead) if ahead.is_foreign() => (Target::Prefix, self.known.line.index()),
                Some(ahead) => (Target::Ahead(ahead.session.clone()), ahead.modified),
            });
        }
        // Proofs look after those who share sessions.
        self.lone.as_ref()?;
        let (_, holder) = self.ours.those(Stand::Holding).next()?;
        if holder.key.is_none() || self.watched_from()? > now {
            return None;
        }
        Some((Target::Own(holder.session()?.clone()), holder.index()))
    }

    /// When a holder's key is first polled: not for a short hold, nor while callers come, who may need
    /// the poll.
    pub(super) fn watched_from(&self) -> Option<Instant> {
        self.lone.as_ref()?;
        let (_, holder) = self.ours.those(Stand::Holding).next()?;
        let quiet_since = holder.held_since()?.max(self.writes.asked_at);
        Some(quiet_since + self.settings.session.ttl() / 15)
    }

    pub(super) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(lone) = &mut self.lone
            && let Some(transmit) = lone.poll_transmit(now, || self.requests.number())
        {
            return Some(transmit);
        }
        let mut reads_record = false;
        if self.writes.pause.is_over(now) {
            match self.compose(now) {
                Some(Ok(step)) => return Some(self.send_step(now, step)),
                Some(Err(_)) => reads_record = true,
                None => {}
            }
        }
        if !self.needs_reads() {
            return None;
        }
        let reads_record = reads_record || self.reads.is_touched;
        if let Some(read) = self.reads.next(now, reads_record) {
            let request = read.request(&self.settings);
            let transmit = self.requests.send(now, From::Read, Service::Reads, request);
            self.reads.sent(read, Moment::of(transmit.id), now);
            return Some(transmit);
        }
        self.transmit_poll(now, reads_record)
    }

    fn send_step(&mut self, now: Instant, mut step: Step) -> Transmit {
        step.composed = self.moment();
        let service = step.service();
        let request = step.request(&self.settings);
        self.writes.was_handover = step.is_handover();
        self.writes.step = Some((step, now));
        self.requests.send(now, From::Step, service, request)
    }

    /// The poll comes last. None begins while a claim of ours or a read is under way or due: its
    /// answer is what the next poll begins from.
    fn transmit_poll(&mut self, now: Instant, reads_record: bool) -> Option<Transmit> {
        let step = self.writes.step.as_ref();
        if reads_record || step.is_some_and(|(step, _)| step.claims()) {
            return None;
        }
        let wanted = self.watched(now);
        // An agent counts the connection of a poll that is given up until its wait is over
        // (docs/CONSUL.md, "Limits and timeouts"). So one that nobody needs any more is left to its
        // end, unless a waiter needs another. The write that ends a hold ends the poll of its key.
        if let Some((target, _)) = &wanted
            && !matches!(target, Target::Own(_))
            && self.reads.polled().is_some_and(|it| it != target)
        {
            self.reads.drop_poll();
            self.requests.abort(|from| from.polls());
        }
        if !self.reads.may_poll(now) {
            return None;
        }
        let (target, from) = wanted?;
        let ahead = match target {
            Target::Own(_) => u32::MAX,
            _ => self.ahead().unwrap_or(u32::MAX),
        };
        let request = target.request(from, ahead, &self.settings);
        let service = Service::Inquiries;
        let transmit = self.requests.send(now, From::Poll, service, request);
        self.reads.poll_sent(now, target, from);
        Some(transmit)
    }
}
