//! What follows from what is known: who fails, how many contend, and what is written next.

use std::collections::BTreeSet;

use crate::defect::{Defect, is_on};
use crate::error::{Error, Refusal, RequestError};
use crate::id::{CommandId, SessionId};
use crate::input::InvalidInput;
use crate::machine::callers::{Patience, Ticket};
use crate::machine::contract::Machine as _;
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::poller::Start;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::{
    ContenderNo, FirstWrite, Place, Room, Situation, Turn, Write,
};
use crate::machine::semaphore::contender::{Contender, Spare};
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::knowledge::{Observed, RecordLook};
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::writes::{MAX_STEPS, most_steps};
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;
use crate::view::{Source, View};

impl Participant {
    /// Adapts everything to what is known now. Every command, answer and timeout ends here.
    pub(super) fn settle(&mut self, now: Instant) {
        self.remove_gone(now);
        self.dismiss_spares(now);
        self.judge_record(now);
        self.judge_tries(now);
        self.adjust_contenders(now);
        self.roster.look_at(self.knowledge.record());
        self.adjust_reads(now);
        self.plan(now);
    }

    /// Fails every waiting caller.
    pub(super) fn fail_waiting(&mut self, now: Instant, error: impl Fn(&Ticket) -> Error) {
        let waiting = self.callers.take_all();
        if let Some(first) = waiting.first() {
            let error = error(first);
            self.callers.notices_mut().failed_all(&error);
        }
        self.fail(now, waiting, error);
    }

    /// Fails the waiting instant tries: a failure ends them.
    pub(super) fn fail_tries(&mut self, now: Instant, error: &RequestError) {
        let tries = self.callers.take_tries();
        self.fail(now, tries, |_| Error::Request(error.clone()));
    }

    /// A claim for this acquisition is no longer needed: those whom it admits leave again.
    pub(super) fn drop_claim(&mut self, now: Instant, acquire: CommandId) {
        if is_on(Defect::CancelledClaimGranted) {
            return;
        }
        if let Some(claim) = self.ledger.take_claim_of(acquire) {
            self.leave(now, &claim.contenders);
        }
    }

    fn fail(&mut self, now: Instant, tickets: Vec<Ticket>, error: impl Fn(&Ticket) -> Error) {
        for ticket in tickets {
            self.drop_claim(now, ticket.id);
            let error = error(&ticket);
            self.callers.failed(now, &ticket, error);
        }
    }

    /// Fails those who wait for something that the record can't give.
    fn judge_record(&mut self, now: Instant) {
        let Some(view) = self.knowledge.view() else {
            return;
        };
        if self.callers.queue().is_empty() {
            return;
        }
        if view.is_filtered() {
            let prefix = self.settings.prefix.to_string();
            self.fail_waiting(now, |_| Error::IncompleteView {
                prefix: prefix.clone(),
                on: Subject::default(),
            });
            return;
        }
        let ours = self.settings.limit;
        match view.lock().map(|lock| &lock.record) {
            None => {}
            Some(Err(_)) if is_on(Defect::GarbageOverwritten) => {}
            Some(Err(conflict)) => {
                let (key, conflict) = (self.settings.prefix.record_key(), conflict.clone());
                self.fail_waiting(now, |_| Error::Conflict {
                    key: key.clone(),
                    conflict: conflict.clone(),
                    on: Subject::default(),
                });
            }
            Some(Ok(record)) => {
                let theirs = record.limit();
                let may_become_ours = theirs != ours && self.may_become_idle(view, record);
                if theirs == ours {
                    self.knowledge.limit_shown();
                }
                let is_settled = theirs == ours || self.settings.other_limit.is_adopted();
                // If nobody holds, our limit will replace theirs. A caller that wants more than our
                // limit would prevent that, and block those behind it.
                let settled = if may_become_ours {
                    Some(ours)
                } else {
                    is_settled.then_some(theirs)
                };
                if let Some(limit) = settled {
                    let over = self.callers.take_over(limit);
                    self.fail(now, over, |ticket| {
                        let wanted = ticket.permits;
                        InvalidInput::PermitsOverLimit { wanted, limit }.into()
                    });
                } else if !self.knowledge.tolerates(theirs) {
                    self.fail_waiting(now, |_| Error::LimitConflict {
                        ours,
                        theirs,
                        on: Subject::default(),
                    });
                }
            }
        }
    }

    /// Whether our limit should replace the record's, and nobody is seen to hold: everyone in the
    /// record leaves or has no key any more. Those without a key may still believe that they hold.
    fn may_become_idle(&self, view: &View, record: &Record) -> bool {
        let leaving = self.roster.leaving();
        let leaves = |holder: &str| leaving.iter().any(|(_, it, _)| it.as_str() == holder);
        self.settings.other_limit.is_replaced_if_idle()
            && !record
                .holders()
                .any(|holder| view.is_alive(holder) && !leaves(holder))
    }

    /// An instant try ends as soon as a view shows that nothing is free for it.
    fn judge_tries(&mut self, now: Instant) {
        while let Some((permits, shortage)) = self.hopeless_try(now) {
            // What is too much for one is also too much for later ones that want as much.
            while let Some(head) = self.callers.queue().head().copied()
                && head.patience == Patience::None
                && head.permits >= permits
            {
                self.callers.take(head.id);
                let refusal = shortage.refusal(head.permits);
                self.callers.not_available(head.id, refusal);
            }
        }
    }

    /// If the first in the queue is an instant try for which nothing is free: its permits and the
    /// reason.
    fn hopeless_try(&self, now: Instant) -> Option<(u32, Shortage)> {
        let observed = self.knowledge.current()?;
        let head = *self.callers.queue().head()?;
        if head.patience != Patience::None {
            return None;
        }
        let in_use = [Group::Held, Group::LeftBehind];
        let is_in_use = in_use.into_iter().any(|group| self.roster.has_any(group));
        if !self.settings.owns_sessions() && is_in_use {
            return Some((head.permits, Shortage::Session));
        }
        let is_planable = self
            .ledger
            .may_plan(now, observed.view.record_index(), observed.sent);
        // The view may show a contender of ours that does not know yet that it has entered. It
        // would seem to be somebody ahead.
        let mut wanting = self.roster.those(Group::Wanting);
        let is_entering = wanting.any(|(_, own)| own.is_entering());
        if !self.ledger.claims().is_empty() || !is_planable || is_entering {
            return None;
        }
        let is_short = |room: &Room| room.refusal(head.permits).is_some();
        let room = self.judge(now, observed, |it| it.room().filter(is_short))?;
        Some((head.permits, Shortage::Room(room)))
    }

    /// Adds or removes contenders, to have as many as the callers need.
    fn adjust_contenders(&mut self, now: Instant) {
        let passing = self.adjust_handovers(now);
        let mut wanted = self.wanted_contenders(passing);
        let mut wanting: Vec<_> = self.roster.waiting().map(|(no, _)| no).collect();
        if self.is_try_undecided(now) {
            wanted = wanted.min(wanting.len());
        }
        if wanting.len() > wanted {
            // The youngest has waited least. One with a claim under way may be needed: its answer decides.
            let is_claiming = |no: &ContenderNo| {
                let contender = self.roster.get(*no);
                contender.is_some_and(Contender::is_claiming)
            };
            let (claiming, mut others): (Vec<_>, Vec<_>) =
                wanting.into_iter().partition(is_claiming);
            let kept = wanted.saturating_sub(claiming.len()).min(others.len());
            let mut leaving = others.split_off(kept);
            wanting = claiming;
            if !self.ledger.is_writing() {
                leaving.extend(wanting.split_off(wanting.len().min(wanted)));
            }
            wanting.append(&mut others);
            self.set_aside(now, &leaving);
        }
        if !self.roster.may_add(now) {
            return;
        }
        let others = if self.settings.owns_sessions() {
            0
        } else {
            // A caller's session serves one contender at a time, from beginning to end.
            self.roster.len() - wanting.len()
        };
        let missing = wanted.saturating_sub(wanting.len() + others);
        self.add_contenders(now, missing);
        self.remove_gone(now);
    }

    /// Adds contenders that are missing. Each takes a kept session, or waits for that of a contender that is leaving. Without
    /// either it makes one.
    fn add_contenders(&mut self, now: Instant, missing: usize) {
        let mut to_come = Vec::new();
        if missing > 0 && self.settings.owns_sessions() {
            to_come = self.roster.sessions_to_come(now, missing, &self.settings);
        }
        let mut awaited: Option<Instant> = None;
        for _ in 0..missing {
            let spare = self.roster.spares().take();
            if spare.is_none()
                && let Some(end) = to_come.pop()
            {
                awaited = awaited.into_iter().chain([end]).min();
            } else {
                self.add_contender(spare);
            }
        }
        self.roster.spares().expect(awaited);
    }

    pub(super) fn add_contender(&mut self, spare: Option<Spare>) -> ContenderNo {
        let no = ContenderNo(self.requests.number());
        let moment = self.moment();
        let (settings, rng) = (&self.settings, &mut self.rng);
        self.roster.add(no, moment, spare, settings, rng);
        no
    }

    /// Frees slots that should pass to the next in our queue, if it is somebody else's turn now, or
    /// nobody waits. Returns how many remain.
    fn adjust_handovers(&mut self, now: Instant) -> u32 {
        let passing = self.roster.numbers_of(Group::HandingOver);
        if passing.is_empty() || !self.settings.owns_sessions() {
            return 0;
        }
        let is_wanted = self
            .callers
            .queue()
            .head()
            .is_some_and(|head| head.permits == 1);
        let view = self.knowledge.view();
        let is_ours = view.is_some_and(|view| !self.roster.sees_strangers_wait(view));
        let is_writing = self.ledger.is_writing();
        let stays = |it: &Contender| {
            it.is_claiming() && is_writing || is_wanted && (is_ours || it.has_slot_for_more(now))
        };
        let stays = |no: &ContenderNo| self.roster.get(*no).is_some_and(stays);
        let (mut kept, mut leaving): (Vec<_>, Vec<_>) = passing.into_iter().partition(stays);
        let most = self.callers.queue().wanted() as usize;
        leaving.extend(kept.split_off(kept.len().min(most)));
        self.set_aside(now, &leaving);
        u32::try_from(kept.len()).unwrap_or(u32::MAX)
    }

    /// Frees slots that are kept for our next callers, since others come first. Returns whether there were any.
    fn give_way(&mut self, now: Instant) -> bool {
        let passing = self.roster.numbers_of(Group::HandingOver);
        let gives_way = !passing.is_empty() && self.settings.owns_sessions();
        if gives_way {
            self.set_aside(now, &passing);
        }
        gives_way
    }

    /// An instant try reads before it creates a session.
    fn is_try_undecided(&self, now: Instant) -> bool {
        let is_try = self
            .callers
            .queue()
            .head()
            .is_some_and(|head| head.patience == Patience::None);
        is_try
            && self.knowledge.current().is_none_or(|observed| {
                let record_index = observed.view.record_index();
                !self.ledger.may_plan(now, record_index, observed.sent)
            })
    }

    /// How many contenders are wanted besides those whose slot passes on.
    fn wanted_contenders(&self, passing: u32) -> usize {
        let Some(head) = self.callers.queue().head() else {
            return 0;
        };
        if !self.settings.owns_sessions() {
            return 1;
        }
        let limit = self.settings.limit;
        // If the limit is adopted, more may be requested than there are.
        let known_limit = self
            .knowledge
            .record()
            .map_or(limit, |record| record.limit().max(limit));
        let ahead = limit
            .min(self.contenders_ahead())
            .max(head.permits.min(known_limit));
        self.callers
            .queue()
            .wanted()
            .saturating_sub(passing)
            .min(ahead) as usize
    }

    /// How many contenders queue in advance. If hundreds of slots are free, a write of the record
    /// should admit many: each contains all holders.
    fn contenders_ahead(&self) -> u32 {
        let free = self.knowledge.record().map_or(0, |record| {
            let held = u32::try_from(record.holders().len()).unwrap_or(u32::MAX);
            record.limit().saturating_sub(held)
        });
        if free < MANY_FREE {
            CONTENDERS_AHEAD
        } else {
            (free / FREE_FOR_EACH).min(MOST_AHEAD)
        }
    }

    /// The prefix is read while a decision may follow from it.
    fn adjust_reads(&mut self, now: Instant) {
        if !self.needs_view() {
            self.watch.pause();
            if self.is_idle() {
                self.watch.stop_reads();
                self.vanished.suspect(BTreeSet::new());
                self.knowledge.forget();
                self.requests.forget_services();
                self.ledger.take_claims();
                self.ledger.unplan();
            }
            return;
        }
        match self.watch.start() {
            // The view from the last turn may suffice for an attempt: the attempt names the
            // record's index.
            Start::Anew if self.knowledge.is_useful_recollection(&self.settings) => {}
            Start::Anew => self.knowledge.drop_view(),
            Start::Resumed if self.knowledge.current().is_none() => self.look(now),
            Start::Resumed | Start::Running => {}
        }
        // The poll under way continues.
        if !self.watch.is_polling() {
            let from = self.outlook().watch_from(now);
            self.watch.want_from(from);
        }
        let focus = self.outlook().focus(now);
        self.watch.look_at(focus);
        if self.outlook().begins_by_name() {
            self.look(now);
        }
        if self.watch.is_for_another() {
            self.restart_watch(now);
        }
        let known = self.knowledge.newest();
        let record_index = known.map(|observed| observed.view.record_index());
        let sent = known.map_or(Moment::START, |observed| observed.sent);
        // A session that lives on does not delete its key.
        let is_waited_for = self
            .roster
            .those(Group::Looking)
            .any(|(_, it)| it.needs_read(sent));
        if self.knowledge.is_doubted()
            || is_waited_for
            || self.ledger.needs_read(record_index, sent)
        {
            self.look(now);
        }
    }

    /// A contender that only has to delete its key and its session needs no view any more.
    fn needs_view(&self) -> bool {
        let with_view = [
            Group::Wanting,
            Group::Held,
            Group::Withdrawing,
            Group::Looking,
            Group::Gone,
        ];
        !self.callers.queue().is_empty()
            || with_view
                .into_iter()
                .any(|group| self.roster.has_any(group))
            || !self.settings.owns_sessions() && self.roster.all().next().is_some()
    }

    fn plan(&mut self, now: Instant) {
        let Some(observed) = self.knowledge.current() else {
            self.ledger.unplan();
            return;
        };
        if !self
            .ledger
            .may_plan(now, observed.view.record_index(), observed.sent)
        {
            self.ledger.unplan();
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
            let (first, grace) = (judgement.first_ahead.as_ref(), self.outlook().grace());
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
        if let Some(passed) = judgement.passed {
            if !passed.is_empty() {
                tracing::debug!(name: "patience-over", ahead = ?passed, "claims a slot that those ahead leave unused");
            }
            self.ledger.overtake(now, passed);
        }
        let write = judgement.write.filter(|_| !self.reads_record_first(now));
        self.ledger.plan(now, write, turn, &mut self.rng);
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

    /// Applies the rules of admission to what is known.
    pub(super) fn judge<T>(
        &self,
        now: Instant,
        observed: &Observed,
        ask: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        let first = self.callers.queue().first().take(MAX_STEPS);
        let wanted: Vec<_> = first.map(|ticket| ticket.permits).collect();
        ask(&Situation {
            view: &observed.view,
            limit: self.settings.limit,
            other_limit: self.settings.other_limit,
            wanted: &wanted,
            steps: most_steps(&self.settings),
            first_write: first_write(&self.settings),
            admissible: &self.roster.admissible(now),
            newcomers: &self.roster.newcomers(now, &self.settings),
            leaving: &self.roster.leaving(),
            patience_is_over: self.ledger.patience_is_over(now)
                && observed.view.source() != Source::NewerRecord,
            // It only decides who may be pruned.
            sees_ours: observed.view.keyless().next().is_some()
                && self.roster.is_seen_in(&observed.view),
            overtaken: &self.ledger.overtaken(now),
            dead: &self.vanished.dead(now),
            withheld: &self.vanished.withheld(now, &self.settings),
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
    if settings.encoding == Encoding::Transactions && settings.shares_sessions() {
        FirstWrite::Admits
    } else {
        FirstWrite::Creates
    }
}

/// The most contenders of one participant that queue in advance, so that the next one is in the
/// queue when a slot becomes free. One caller that wants more permits at once gets more.
const CONTENDERS_AHEAD: u32 = 8;

/// The same while many slots are free: one for each of these, as long as a transaction can enter
/// all of them.
const MANY_FREE: u32 = 128;
const FREE_FOR_EACH: u32 = 8;
const MOST_AHEAD: u32 = 48;

/// What an instant try lacks.
enum Shortage {
    /// The caller's only session is in use.
    Session,
    Room(Room),
}

impl Shortage {
    /// Why this number of permits is not available.
    fn refusal(&self, permits: u32) -> Refusal {
        match self {
            Self::Session => None,
            Self::Room(room) => room.refusal(permits),
        }
        .unwrap_or(Refusal::SessionInUse)
    }
}
