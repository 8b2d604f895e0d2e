//! Who may enter, claim, hand over, pass out of turn or prune: functions of what is known. Nothing
//! is changed and nothing is sent here. The numbers are those of the rules in docs/PROTOCOL.md.

use core::time::Duration;

use super::Settings;
use super::capacity::Capacity;
use super::contender::{Contender, ContenderNo, Course, Entry, KeyState, Stand};
use super::contenders::{Contenders, Group};
use super::line::Line;
use super::missing::Missing;
use super::record::{Content, KnownRecord};
use super::step::{Exit, Plan, Step};
use crate::defect::{Defect, is_on};
use crate::machine::callers::{Patience, Queue, Ticket};
use crate::machine::process::moment::Moment;
use crate::record::Record;
use crate::time::Instant;

/// The wait of each poll of a waiter. Whom nobody has seen for as long is gone (rule 2), and a list
/// is as old as this for each place in the line before it is read again (rule 6).
pub(super) const POLL: Duration = Duration::from_secs(5);

/// As many contenders wait for callers of one slot each beside others.
const FEW_WAITING: usize = 8;

/// How long a slot stays with one participant while it passes from caller to caller (rule 3), at
/// least, and for each slot of the semaphore: with many slots, one turns up more often.
const STAY: Duration = Duration::from_millis(200);
const STAY_PER_SLOT: Duration = Duration::from_millis(10);

/// Everything that decides.
pub(super) struct Situation<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) record: &'a KnownRecord,
    pub(super) line: &'a Line,
    pub(super) missing: &'a Missing,
    pub(super) ours: &'a Contenders,
    pub(super) queue: &'a Queue,
    /// The write under way.
    pub(super) step: Option<&'a Step>,
    /// When the newest list was sent.
    pub(super) listed: Moment,
    /// A key ahead was seen touched: no claim before the record was read (rule 5).
    pub(super) is_touched: bool,
}

/// What becomes of slots without a caller (rule 3).
#[derive(Debug, Default)]
pub(super) struct Handovers {
    /// The slots for each caller that gets them.
    pub(super) groups: Vec<Vec<ContenderNo>>,
    /// How many callers a handover serves, those under way included.
    pub(super) served: usize,
    /// Those that no local caller can use at once.
    pub(super) surplus: Vec<ContenderNo>,
}

impl Situation<'_> {
    fn is_under_way(&self, no: ContenderNo) -> bool {
        self.step.is_some_and(|step| step.is_about(no))
    }

    /// The number of slots: the record's, or the caller's while there is none, or if it may replace
    /// the record's.
    pub(super) fn limit(&self) -> usize {
        let limit = self.record.get().map_or(self.settings.limit, Record::limit);
        if self.may_resize(false) {
            return self.settings.limit as usize;
        }
        limit as usize
    }

    /// Whether the record's limit is not the one that our callers contend with.
    fn is_other_limit(&self) -> bool {
        let is_other = |record: &Record| record.limit() != self.settings.limit;
        self.record.get().is_some_and(is_other)
    }

    /// A claim may write our own limit if it leaves no other name, and nobody is ahead or PATIENCE
    /// with those ahead is over.
    fn may_resize(&self, passes_others: bool) -> bool {
        if !self.settings.other_limit.is_replaced_if_idle() || !self.is_other_limit() {
            return false;
        }
        let leaving = self.ours.those(Stand::Leaving);
        let leaving = leaving.filter(|(_, it)| it.is_named).count();
        let dead = self.missing.prunable(self.now).count();
        let first = self.first_waiter();
        let ahead = self.line.rank(first.and_then(|group| group.created));
        (ahead == 0 || passes_others) && self.names() <= leaving + dead
    }

    fn names(&self) -> usize {
        self.record.get().map_or(0, |record| record.holders().len())
    }

    /// Free slots by the newest record. Never below zero: a limit may be lowered under holders.
    pub(super) fn free(&self) -> usize {
        self.limit().saturating_sub(self.names())
    }

    /// Rule 2. Nobody else was seen for a while, so a newcomer need not enter before it claims.
    pub(super) fn is_alone(&self) -> bool {
        let is_recent = |at: Instant| self.now < at + POLL;
        self.line.is_known()
            && self.record.is_known()
            && !self.has_others()
            && !self.line.others_at().is_some_and(is_recent)
    }

    /// Somebody else is named or waits.
    pub(super) fn has_others(&self) -> bool {
        self.line.len() > 0 || self.names() > self.ours.named()
    }

    /// Rule 9. Others may change the record before our write arrives.
    pub(super) fn others_may_write(&self) -> bool {
        self.names() > self.ours.named() || self.line.len() > 0 && self.free() > 0
    }

    /// How long a slot stays here (rule 3).
    pub(super) fn stay(&self) -> Duration {
        let slots = u32::try_from(self.limit()).unwrap_or(u32::MAX);
        STAY.max(STAY_PER_SLOT.saturating_mul(slots))
    }

    /// Rule 3. A slot without a user goes to the next local caller.
    pub(super) fn handovers(&self) -> Handovers {
        let idle = self.ours.those(Stand::Idle);
        let is_free = |(no, it): &(ContenderNo, &Contender)| {
            !self.is_under_way(*no) && it.is_believed(self.now)
        };
        let mut free: Vec<ContenderNo> = idle.filter(is_free).map(|(no, _)| no).collect();
        let mut under_way = self.step.map(Step::handed_sizes).unwrap_or_default();
        let mut plan = Handovers::default();
        for ticket in self.queue.first() {
            let size = ticket.permits as usize;
            if let Some(at) = under_way.iter().position(|it| *it == size) {
                under_way.swap_remove(at);
            } else if under_way.is_empty() && free.len() >= size {
                plan.groups.push(free.drain(..size).collect());
            } else {
                // A slot that the next caller can't use at once is neither kept for it nor given to
                // one behind it.
                break;
            }
            plan.served += 1;
        }
        plan.surplus = free;
        plan
    }

    /// The sizes of the groups that our callers need in the line, besides those whom a handover
    /// serves.
    pub(super) fn wanted(&self, served: usize) -> Vec<usize> {
        let mut wanted = Vec::new();
        let mut slots = 0;
        for ticket in self.queue.first().skip(served) {
            if ticket.patience == Patience::None && !self.has_room_for(ticket) {
                continue;
            }
            // Whether the record has as many slots is read before each gets a session.
            if ticket.permits > self.settings.limit && !self.record.is_known() {
                break;
            }
            slots += ticket.permits as usize;
            if slots > self.most_waiting() && !wanted.is_empty() {
                break;
            }
            wanted.push(ticket.permits as usize);
        }
        wanted
    }

    /// How many contenders wait here for callers of one slot each: a few, so that the next is in the
    /// line when a slot becomes free. While nobody else is here, as many as one write admits.
    fn most_waiting(&self) -> usize {
        if self.has_others() {
            return FEW_WAITING;
        }
        FEW_WAITING.max(self.free().min(Capacity::most_handed_over()))
    }

    /// Rule 2. A try enters only to claim at once: it needs more room than all in the line.
    pub(super) fn has_room_for(&self, ticket: &Ticket) -> bool {
        let is_known = self.is_alone() || self.listed > Moment(ticket.id.0);
        // A record of another limit takes nobody, unless the claim may write ours.
        let is_taking = !self.is_conflict() || self.may_resize(false);
        let dead = self.missing.prunable(self.now).count();
        let needed = self.names() + self.line.len() + ticket.permits as usize;
        is_known && is_taking && self.limit() + dead >= needed
    }

    /// Rule 7. Whether the room of the present record is room for PATIENCE to count: enough for the
    /// group at the head, which may be gathering it, and for ours, which could not claim it by turn.
    pub(super) fn leaves_room(&self) -> bool {
        let Some(first) = self.first_waiter() else {
            return false;
        };
        let rank = self.line.rank(first.created);
        let free = self.free();
        let is_refused = rank + first.size > free || self.is_conflict();
        rank > 0 && is_refused && self.suffices(&first)
    }

    /// Whether the room that there is was there for PATIENCE.
    fn is_patience_over(&self) -> bool {
        let until = self.record.patient_until();
        until.is_some_and(|until| until <= self.now)
    }

    /// Whether the record's limit is neither ours nor adopted.
    fn is_conflict(&self) -> bool {
        self.is_other_limit() && !self.settings.other_limit.is_adopted()
    }

    fn suffices(&self, group: &Group) -> bool {
        let head = self
            .line
            .head()
            .filter(|head| Some(head.created) < group.created);
        let head = head.map_or(0, |head| (head.size() as usize).min(self.limit()));
        let room = self.limit() + self.missing.suspects();
        room >= self.names() + head.max(group.size)
    }

    /// Our first waiter: the first of ours in the line.
    pub(super) fn first_waiter(&self) -> Option<Group> {
        let mut groups = self.ours.groups().into_iter();
        groups.find(|group| group.created.is_some())
    }

    /// Everything of one record write that is due: releases, prunes, claims and entries, in this
    /// order. What doesn't fit into a transaction waits for the next one.
    pub(super) fn plan(&self, served: usize) -> Plan {
        let mut plan = Plan::default();
        let mut left = Capacity::beside(self.record.get(), self.settings);
        let is_readable = matches!(self.record.content(), Content::Missing | Content::Record(_));
        let mut names = self.names();
        for (no, contender) in self.ours.leaving() {
            if left.operations() == 0 {
                break;
            }
            if !self.is_under_way(no)
                && let Some(exit) = exit(contender, self.now, is_readable)
                && left.take(exit.operations(), 0)
            {
                names -= usize::from(exit.removes_name()).min(names);
                plan.exits.push((no, exit));
            }
        }
        let dead = self.missing.prunable(self.now).count();
        if self.may_resize(self.is_patience_over()) && names <= dead {
            // Nobody else may be named then, so all that are dead are pruned with the claim.
            plan.limit = Some(self.settings.limit);
        }
        let is_writable = is_readable && (!self.is_conflict() || plan.limit.is_some());
        self.plan_claims(&mut plan, &mut left, (names, is_writable), served);
        plan
    }

    fn plan_claims(
        &self,
        plan: &mut Plan,
        left: &mut Capacity,
        (mut names, is_writable): (usize, bool),
        served: usize,
    ) {
        let limit = plan.limit.or(self.record.get().map(Record::limit));
        let limit = limit.unwrap_or(self.settings.limit) as usize;
        let limit = limit + usize::from(is_on(Defect::LimitExceeded));
        let groups = self.ours.groups();
        let mut callers = self.wanted(served);
        // Those for whom a newcomer enters if it can't claim. A try only claims.
        let mut waits = self.patient_callers(served);
        for group in groups.iter().filter(|group| group.created.is_some()) {
            take(&mut waits, group.size);
        }
        let is_alone = self.is_alone();
        let mut is_blocked = !is_writable || self.is_touched;
        let mut is_first = true;
        for group in &groups {
            let members = || group.members.iter().filter_map(|no| self.ours.get(*no));
            let is_busy = group.members.iter().any(|no| self.is_under_way(*no));
            if is_busy || !group.is_whole() || !members().all(|it| it.is_believed(self.now)) {
                is_first &= group.created.is_none();
                continue;
            }
            let size = group.size;
            let free = limit.saturating_sub(names);
            let rank = self.line.rank(group.created);
            let is_newcomer = group.created.is_none();
            // Rule 2. A newcomer claims only if it is alone, and was not refused. Beside others, or
            // without a list, it enters, which nobody can refuse. A try has listed.
            let has_rank = !is_newcomer || !waits.contains(&size);
            let is_fresh = || members().all(|it| it.entry == Entry::Settled);
            let may_claim = has_rank || is_alone && is_fresh();
            let may_claim = may_claim && !is_blocked && callers.contains(&size);
            let operations = 2 * size;
            // Rule 1. Its turn: all its slots in one write, or none.
            let mut claims = may_claim && rank + size <= free;
            let mut prunes = 0;
            if may_claim && !claims && is_first && has_rank {
                // Rule 7. Room that has been there for PATIENCE may be claimed whatever the rank.
                let is_patient = self.is_patience_over() && self.suffices(group);
                let needed = size + if is_patient { 0 } else { rank };
                // Rule 8. Who needs the slots of dead holders removes their names.
                // A limit may have been lowered under its holders.
                let missing = (names + needed).saturating_sub(limit);
                claims = missing <= self.missing.prunable(self.now).count();
                prunes = if claims { missing } else { 0 };
                plan.is_out_of_turn |=
                    claims && is_patient && names + rank + size > limit + missing;
            }
            is_first = false;
            if claims && plan.limit.is_some() && plan.claims.is_empty() {
                // The first claim under our own limit leaves no other name.
                prunes = names;
            }
            if claims && !left.take(operations + 2 * prunes, size) {
                // The names that don't fit are pruned by a write before it.
                claims = false;
                prunes = prunes.min(left.operations() / 2);
                left.take(2 * prunes, 0);
            }
            let dead = self.missing.prunable(self.now).take(prunes);
            plan.prunes.extend(dead);
            plan.pruner = plan.pruner.or(group.members.first().copied());
            names -= prunes.min(names);
            if is_on(Defect::ManyClaimedInParts) && may_claim && !claims && rank < free {
                // Too few of them serve nobody.
                let some = group.members.iter().take(free - rank).copied().collect();
                plan.claims.push(some);
                is_blocked = true;
            } else if claims {
                names += size;
                take(&mut callers, size);
                plan.claims.push(group.members.clone());
            } else {
                is_blocked = true;
                if is_newcomer && take(&mut waits, size) && left.take(operations, size) {
                    plan.entries.push(group.members.clone());
                }
            }
        }
        if plan.claims.is_empty() {
            plan.limit = None;
        }
    }

    /// The sizes of the groups of those who wait until there is a slot.
    fn patient_callers(&self, served: usize) -> Vec<usize> {
        let most = 2 * self.most_waiting();
        let callers = self.queue.first().skip(served).take(most);
        let patient = callers.filter(|ticket| ticket.patience != Patience::None);
        patient.map(|ticket| ticket.permits as usize).collect()
    }
}

/// Rule 11. How a contender leaves, by what is left of it. An open one parks: while its key exists,
/// and after its session, no late entry can succeed.
fn exit(contender: &Contender, now: Instant, is_record_readable: bool) -> Option<Exit> {
    contender.session()?;
    let is_gone = contender.loan.is_gone();
    if contender.course() == Course::Left && !is_gone {
        return None;
    }
    let parks = contender.is_open() && !is_gone;
    match (contender.is_named && is_record_readable, contender.key) {
        (true, None) => Some(Exit::NameOnly),
        (true, Some(_)) if parks => Some(Exit::Park { is_named: true }),
        (true, Some(_)) => Some(Exit::Release),
        (false, Some(key)) if parks && key.state == KeyState::Parked => {
            contender.is_late_over(now).then_some(Exit::Leave)
        }
        (false, _) if parks => Some(Exit::Park { is_named: false }),
        (false, Some(_)) => Some(Exit::Leave),
        (false, None) => None,
    }
}

/// Removes one of this size, if there is one.
fn take(sizes: &mut Vec<usize>, size: usize) -> bool {
    let found = sizes.iter().position(|it| *it == size);
    found.map(|at| sizes.remove(at)).is_some()
}
