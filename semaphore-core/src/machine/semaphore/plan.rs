//! What is written next: applies the rules of admission to what is known, and decides when a read
//! comes first.

use std::collections::BTreeSet;

use crate::api::Txn;
use crate::id::SessionId;
use crate::input::InvalidInput;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::{
    ContenderNo, FirstWrite, Place, Situation, Turn, Write,
};
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::knowledge::{Observed, RecordLook};
use crate::machine::semaphore::ledger::Basis;
use crate::machine::semaphore::room::{MAX_STEPS, room_beside};
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;
use crate::view::{Source, View};

impl Participant {
    /// Plans the next write of the record, if one is due, from the view that is known.
    pub(super) fn plan(&mut self, now: Instant) {
        let Some(observed) = self.knowledge.current() else {
            self.ledger.unplan();
            return;
        };
        let record = observed.view.record_index();
        if !self.ledger.may_plan(now, record, observed.sent) {
            self.ledger.unplan();
            return;
        }
        if let Some(error) = self.lacks_room(&observed.view) {
            self.ledger.unplan();
            self.fail_waiting(now, |_| error.clone().into());
            return;
        }
        let basis = Basis {
            version: observed.view.index(),
            base: record,
            sent: observed.sent,
        };
        if self.ledger.puts_off_plan(basis) {
            return;
        }
        self.ledger.forget_overtaken(now);
        if self.ledger.patience_is_over(now) && observed.view.source() == Source::NewerRecord {
            // Those ahead are not known well enough to pass them.
            self.look(now);
        }
        if self.plan_withdrawal(now) {
            return;
        }
        let Some(observed) = self.knowledge.current() else {
            return;
        };
        // A poll of something else may be under way for long: then patience decides.
        let looks_ahead = matches!(self.outlook().focus(now), Focus::Ahead { .. })
            && (!self.watch.is_polling() || self.watch.is_looking_ahead());
        let is_patched =
            observed.view.source() == Source::NewerRecord && self.roster.has_any(Group::Held);
        let is_list = observed.view.source() == Source::List;
        let judgement = self.judge(now, observed, |situation| {
            let (write, turn) = situation.plan();
            let claims_out_of_turn = turn == Turn::Now && situation.patience_is_over;
            Judgement {
                write,
                turn,
                passed: claims_out_of_turn.then(|| situation.ahead().cloned().collect()),
                suspects: situation.suspects(),
                needs_list: situation.needs_list(),
                first_ahead: situation.ahead().next().cloned(),
                place: situation.place(0),
            }
        });
        if let Some(record) = observed.view.record() {
            self.vanished.forget_the_removed(record);
        }
        if judgement.turn == Turn::BehindOthers && self.give_way(now) {
            return self.plan(now);
        }
        // A contender that watches only the next one ahead does not know how long a slot has been
        // free.
        let turn = match judgement.turn {
            Turn::BehindOthers if looks_ahead => Turn::NotYet,
            turn => turn,
        };
        // Those who seem to be ahead may have been served between two reads of the record.
        let is_uncertain = is_patched || judgement.place == Place::Unknown;
        if turn == Turn::BehindOthers && is_uncertain {
            let (first, grace) = (judgement.first_ahead.as_ref(), self.outlook().grace(now));
            if self.ledger.is_stuck_behind(now, first, grace) {
                self.look(now);
            }
        } else {
            self.ledger.is_behind_nobody();
        }
        if judgement.needs_list {
            self.watch.refresh(now);
        }
        if turn == Turn::NotYet && self.knowledge.record_look() == RecordLook::Not {
            self.knowledge.set_next_stuck(false);
        }
        if is_list {
            self.vanished.suspect(judgement.suspects);
        }
        let is_in_turn = turn == Turn::Now && judgement.passed.is_none();
        if let Some(passed) = judgement.passed {
            if !passed.is_empty() {
                tracing::debug!(name: "patience-over", ahead = ?passed, "claims a slot that those ahead leave unused");
            }
            self.ledger.overtake(now, passed);
        }
        let basis = is_in_turn.then_some(basis);
        let write = judgement.write.filter(|_| !self.reads_record_first(now));
        self.ledger.plan(now, write, turn, basis, &mut self.rng);
    }

    /// Why no claim fits into a transaction with the record, if others have made it so large.
    fn lacks_room(&self, view: &View) -> Option<InvalidInput> {
        let (record, head) = (view.record()?, self.callers.queue().head()?);
        let fits = room_beside(record, &self.settings) >= 2 * head.permits as usize;
        (!fits).then(|| InvalidInput::RecordTooLarge {
            holders: record.holders().len(),
            len: record.encode().len(),
            max: Txn::MAX_BYTES,
        })
    }

    /// A write is due. Requests a read of the record before it, if one is needed, and returns
    /// whether it is.
    fn reads_record_first(&mut self, now: Instant) -> bool {
        let must_read = self.outlook().must_read_record(now);
        if must_read {
            self.watch.read_record(now);
        }
        must_read
    }

    /// If nobody of ours waits and every holder has its key, the only thing to write is that some
    /// leave. Plans that and returns true in this case.
    fn plan_withdrawal(&mut self, now: Instant) -> bool {
        let Some(observed) = self.knowledge.current() else {
            return false;
        };
        let view = &observed.view;
        let Some(record) = view.record() else {
            return false;
        };
        let has_more = !self.callers.queue().is_empty() || view.keyless().next().is_some();
        #[cfg(feature = "unstable-defects")]
        let has_more = has_more || self.ledger.plans_as_before();
        if has_more {
            return false;
        }
        let is_due = self.roster.leaves_any_of(record, view.record_index());
        let is_list = view.source() == Source::List;
        self.vanished.forget_the_removed(record);
        if self.knowledge.record_look() == RecordLook::Not {
            self.knowledge.set_next_stuck(false);
        }
        if is_list {
            self.vanished.suspect(BTreeSet::new());
        }
        let is_due = is_due && !self.reads_record_first(now);
        self.ledger.plan_withdrawal(is_due);
        true
    }

    /// Our contenders that may enter by a write of the record.
    pub(super) fn newcomers(&self, now: Instant) -> Vec<(ContenderNo, SessionId)> {
        self.roster.newcomers(now)
    }

    /// Applies the rules of admission to what is known.
    pub(super) fn judge<T>(
        &self,
        now: Instant,
        observed: &Observed,
        ask: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        let room = observed
            .view
            .record()
            .map_or(MAX_STEPS, |record| room_beside(record, &self.settings));
        let first = self.callers.queue().first().take(MAX_STEPS);
        let wanted: Vec<_> = first.map(|ticket| ticket.permits).collect();
        ask(&Situation {
            view: &observed.view,
            limit: self.settings.limit,
            other_limit: self.settings.other_limit,
            wanted: &wanted,
            room,
            first_write: first_write(&self.settings),
            admissible: &self.roster.admissible(now),
            newcomers: &self.newcomers(now),
            leaving: &self.roster.leaving(),
            patience_is_over: self.ledger.patience_is_over(now)
                && observed.view.source() != Source::NewerRecord,
            // It only decides who may be pruned.
            sees_ours: observed.view.keyless().next().is_some()
                && self.roster.is_seen_in(&observed.view),
            overtaken: &self.ledger.overtaken(now),
            dead: &self.vanished.dead(now),
            withheld: &self.vanished.withheld(now),
            suspected: self.vanished.suspects(),
        })
    }
}

/// What follows from the queue and the record.
struct Judgement {
    write: Option<Write>,
    turn: Turn,
    /// Those who are passed by a claim out of turn.
    passed: Option<Vec<SessionId>>,
    suspects: BTreeSet<SessionId>,
    needs_list: bool,
    first_ahead: Option<SessionId>,
    /// The place of our first contender.
    place: Place,
}

/// Only a transaction's answer has the index of its write. A client may have thousands of
/// semaphores, and creates their records in fewer writes.
fn first_write(settings: &Settings) -> FirstWrite {
    if settings.shares_sessions() {
        FirstWrite::Admits
    } else {
        FirstWrite::Creates
    }
}
