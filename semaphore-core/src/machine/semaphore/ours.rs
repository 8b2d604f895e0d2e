//! How many of ours contend, and who is forgotten: what follows from what is known at once.

use std::collections::BTreeSet;

use super::Participant;
use super::capacity::Capacity;
use super::contender::{Contender, ContenderNo, KeyState, Stand};
use super::reads::Due;
use crate::defect::{Defect, is_on};
use crate::machine::callers::Patience;
use crate::machine::process::tenancy::loan::Rest;
use crate::machine::process::tenancy::past::Past;
use crate::time::Instant;

impl Participant {
    /// Adapts everything to what is known now. Every command, answer and timeout ends here.
    pub(super) fn settle(&mut self, now: Instant) {
        loop {
            self.judge_record(now);
            self.judge_tries(now);
            let mut has_changed = self.keep_groups_whole();
            has_changed |= self.forget_ended(now);
            has_changed |= self.give_up_slots(now);
            has_changed |= self.adjust_waiters(now);
            has_changed |= self.exchange(now);
            if !has_changed {
                break;
            }
        }
        let is_room = self.situation(now).leaves_room();
        let rng = &mut self.rng;
        self.known
            .record
            .leaves_room(now, is_room, || super::patience(rng));
        if self.callers.queue().is_empty() && self.ours.is_empty() {
            self.forget_all();
        }
    }

    /// Its work is done: nothing is remembered.
    fn forget_all(&mut self) {
        if self.writes.step.is_some() {
            return;
        }
        self.requests.abort(|_| true);
        self.reads.forget(&self.settings);
        self.known.missing.forget();
        self.requests.forget_services();
    }

    /// A group waits and leaves as a whole: if one of it leaves, is lost, or is not seen where the
    /// others are, all leave, and their caller enters again.
    fn keep_groups_whole(&mut self) -> bool {
        let mut leaving = Vec::new();
        for group in self.ours.groups() {
            let members = || group.members.iter().filter_map(|no| self.ours.get(*no));
            let entered = members().filter(|it| it.key.is_some()).count();
            let is_seen_partly = entered != 0 && entered != group.members.len();
            let is_busy = group.members.iter().any(|no| self.is_under_way(*no));
            if !is_busy && (!group.is_whole() || is_seen_partly) {
                leaving.extend(group.members);
            }
        }
        for no in &leaving {
            self.ours.change(*no, Contender::leave);
        }
        !leaving.is_empty()
    }

    /// Rule 11. Those of whom nothing is left, and no write of theirs can leave anything.
    fn forget_ended(&mut self, now: Instant) -> bool {
        if self.reads.due() >= Due::List {
            return false;
        }
        let is_readable = !self.is_record_unreadable();
        let mut has_changed = false;
        let mut over = self.ours.numbers_of(Stand::Over);
        if !is_readable {
            over.extend(self.ours.numbers_of(Stand::Leaving));
        }
        for no in over {
            let Some(contender) = self.ours.get(no) else {
                continue;
            };
            let is_gone = contender.loan.is_gone();
            let is_named = contender.is_named && is_readable;
            let may_come = contender.is_open() && !is_gone && contender.session().is_some();
            let is_over = contender.key.is_none() && !is_named && !may_come;
            if self.is_under_way(no) {
                continue;
            }
            if !is_over {
                let is_parked = contender
                    .key
                    .is_some_and(|key| key.state == KeyState::Parked);
                if is_parked && !is_named {
                    has_changed |= self.keep_parked(now, no);
                }
                continue;
            }
            let is_left = contender.is_named || contender.is_taken || contender.is_open();
            let rest = if is_left { Rest::Key } else { Rest::Nothing };
            self.ours
                .change(no, |it| it.loan.give_back(Past::Nothing, rest));
            self.given_back(no);
            self.ours.forget(no);
            has_changed = true;
        }
        has_changed
    }

    /// Nothing of it is left but its parked key, which goes with its session, or after LATE.
    fn keep_parked(&mut self, now: Instant, no: ContenderNo) -> bool {
        let is_new = self.ours.change(no, |it| it.parks(now)) == Some(true);
        if is_new {
            tracing::debug!(name: "late-key", "a parked key keeps a late entry off");
        }
        self.given_back(no);
        is_new
    }

    /// Rule 3. A slot that has stayed, or that no local caller can use at once, is released.
    fn give_up_slots(&mut self, now: Instant) -> bool {
        if self.ours.count(Stand::Idle) == 0 || is_on(Defect::CancelledClaimGranted) {
            return false;
        }
        let situation = self.situation(now);
        let stay = situation.stay();
        let mut leaving: BTreeSet<ContenderNo> = BTreeSet::new();
        for (no, it) in self.ours.those(Stand::Idle) {
            let has_stayed = it.slot_since + stay <= now;
            if !self.is_under_way(no) && (has_stayed || !it.is_believed(now)) {
                leaving.insert(no);
            }
        }
        let surplus = situation.handovers().surplus;
        // Those that have stayed may have been meant for others: they are looked at again.
        if leaving.is_empty() {
            leaving.extend(surplus);
        }
        if !leaving.is_empty() && !self.callers.queue().is_empty() {
            // It is meant for others, whom our list may be too old to show.
            self.known.line.saw_others(now);
        }
        for no in &leaving {
            self.ours.change(*no, Contender::leave);
        }
        !leaving.is_empty()
    }

    /// As many groups of each size wait as there are callers of that size whom no handover serves.
    fn adjust_waiters(&mut self, now: Instant) -> bool {
        let situation = self.situation(now);
        let served = situation.handovers().served;
        let wanted = situation.wanted(served);
        let groups = self.ours.groups();
        let sizes: BTreeSet<usize> = wanted
            .iter()
            .copied()
            .chain(groups.iter().map(|it| it.size))
            .collect();
        let mut leaving = Vec::new();
        let mut missing = Vec::new();
        for size in sizes {
            let need = wanted.iter().filter(|it| **it == size).count();
            let waiting: Vec<_> = groups.iter().filter(|it| it.size == size).collect();
            missing.extend((waiting.len()..need).map(|_| size));
            // Rule 4. A waiter without a caller keeps its place for the next one of the same size,
            // as long as such a caller waits here. Who has not entered has no place to keep.
            for group in waiting.iter().skip(need).rev() {
                let is_busy = group.members.iter().any(|no| self.is_under_way(*no));
                if !is_busy && (group.created.is_none() || need == 0) {
                    leaving.extend(group.members.iter().copied());
                }
            }
        }
        for no in &leaving {
            self.ours.change(*no, Contender::leave);
        }
        let head = self.callers.queue().head();
        let is_over = head.is_some_and(|head| head.permits > self.settings.limit);
        if is_over && !self.known.record.is_known() {
            self.reads.require(Due::List);
        }
        if !self.writes.respawn.is_over(now) {
            missing.clear();
        }
        for size in &missing {
            self.add_group(*size);
        }
        !leaving.is_empty() || !missing.is_empty()
    }

    fn add_group(&mut self, size: usize) {
        let first = ContenderNo(self.requests.number());
        let permits = u32::try_from(size).unwrap_or(u32::MAX);
        for at in 0..size {
            let no = if at == 0 {
                first
            } else {
                ContenderNo(self.requests.number())
            };
            self.ours.add(no, (first, permits), &self.settings.session);
        }
    }

    /// The most permits of one acquisition.
    pub(super) fn most_permits(&self) -> u32 {
        Capacity::most_permits(&self.settings)
    }

    /// Rule 2. A try ends as soon as fresh knowledge shows that there is no room for it, and lists
    /// first unless it is alone.
    fn judge_tries(&mut self, now: Instant) {
        while let Some(head) = self.callers.queue().head().copied()
            && head.patience == Patience::None
        {
            let situation = self.situation(now);
            let handovers = situation.handovers();
            if handovers.served > 0 || situation.has_room_for(&head) {
                return;
            }
            let is_fresh = self.known.listed > crate::machine::process::moment::Moment(head.id.0);
            if self.is_claiming() || self.reads.due() != Due::Nothing || self.reads.is_reading() {
                return;
            }
            if !is_fresh {
                self.reads.require(Due::List);
                return;
            }
            let refusal = self.refusal(head.permits);
            self.callers.take(head.id);
            self.callers.not_available(head.id, refusal);
        }
    }

    fn is_claiming(&self) -> bool {
        let step = self.writes.step.as_ref();
        step.is_some_and(|(step, _)| step.claims())
    }
}
