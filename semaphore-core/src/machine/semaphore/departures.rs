//! Departures: slots that are lost or given back, contenders that are replaced, and those of which
//! nothing is left.

use std::collections::{BTreeMap, BTreeSet};

use crate::defect::{Defect, is_on};
use crate::error::{Error, Lost};
use crate::id::CommandId;
use crate::machine::callers::Caller;
use crate::machine::contract::Machine as _;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::{Contender, ContenderEvent};
use crate::machine::semaphore::knowledge::RecordLook;
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::sender::From;
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;

impl Participant {
    pub(super) fn handle_contender_event(
        &mut self,
        now: Instant,
        no: ContenderNo,
        event: Option<ContenderEvent>,
    ) {
        let Some(event) = event else {
            return;
        };
        match event {
            ContenderEvent::Lost(acquire, reason) => {
                // Its holder must stop first: others get the slot when it is given back, or when
                // its lock delay is over.
                let is_kept = match reason {
                    Lost::Evicted { .. } => true,
                    Lost::SessionGone { .. } | Lost::ContenderKeyTaken { .. } => {
                        self.settings.lost_early.is_kept() && !is_on(Defect::LostNotKept)
                    }
                    _ => false,
                };
                if let Some(hold) = self.callers.hold_mut(acquire) {
                    // What is kept after the loss of one slot stays so if another one is taken.
                    if hold.lost.is_some() {
                        return;
                    }
                    hold.lost = Some(reason.clone());
                    if hold.caller == Caller::Present {
                        self.callers.lost(now, acquire, reason);
                    }
                }
                if !is_kept {
                    self.end_hold(now, acquire);
                }
            }
            ContenderEvent::SessionGone | ContenderEvent::KeyTaken => self.replace(now, no),
            ContenderEvent::Unseen => {
                let is_hidden = self.roster.is_hidden();
                self.replace(now, no);
                if is_hidden {
                    let prefix = self.settings.prefix.to_string();
                    self.fail_waiting(now, |_| Error::IncompleteView {
                        prefix: prefix.clone(),
                        on: Subject::default(),
                    });
                }
            }
            ContenderEvent::Refused(error) => {
                self.fail_waiting(now, |_| Error::Request(error.clone()));
            }
        }
    }

    /// A contender that can't continue leaves. Another one takes its place after a pause.
    fn replace(&mut self, now: Instant, no: ContenderNo) {
        let moment = self.moment();
        if let Some(mut contender) = self.roster.get_mut(no) {
            contender.leave_for_another(now, moment, &self.settings);
        }
        self.roster.put_off(now, &mut self.rng);
    }

    /// A hold ends properly. If the next local caller wants as much and nobody else waits, the slot
    /// passes to it. Otherwise it is freed.
    pub(super) fn give_back(&mut self, now: Instant, acquire: CommandId, caller: Caller) {
        let is_awaited = self.lacks_contenders();
        let keeps_session = self.roster.spares().released_at(now, is_awaited);
        let is_passed = self.is_passed_on(now, acquire);
        if !is_passed {
            self.look_before_write();
        }
        let moment = self.moment();
        let Some(hold) = self.callers.give_back(now, acquire, caller) else {
            return;
        };
        self.roster.turn_changed(acquire);
        let contenders = if is_passed {
            core::mem::take(&mut hold.of.contenders)
        } else {
            hold.of.contenders.clone()
        };
        for no in contenders {
            let Some(mut contender) = self.roster.get_mut(no) else {
                continue;
            };
            if is_passed {
                contender.pass();
                drop(contender);
                self.roster.serves_nobody(no);
            } else if keeps_session {
                contender.leave_orderly(now, moment, &self.settings);
            } else {
                contender.leave(now, moment, &self.settings);
            }
        }
    }

    /// Whether a caller of ours waits for whom there is no contender yet.
    fn lacks_contenders(&self) -> bool {
        self.callers.queue().wanted() as usize > self.roster.count(Group::Wanting)
    }

    fn is_passed_on(&self, now: Instant, acquire: CommandId) -> bool {
        let (Some(view), Some(head)) = (self.knowledge.view(), self.callers.queue().head()) else {
            return false;
        };
        let Some(hold) = self.callers.hold(acquire) else {
            return false;
        };
        let waiting = self.roster.count(Group::HandingOver);
        let is_wanted = head.permits == 1 && waiting < self.callers.queue().wanted() as usize;
        let is_kept = |record: &Record| record.holders().len() <= record.limit() as usize;
        let slots = view.record().map_or(0, Record::limit);
        let stays = |no: &ContenderNo| {
            self.roster
                .get(*no)
                .is_some_and(|it| it.has_slot_for_more(now, slots))
        };
        is_wanted
            && hold.of.contenders.len() == 1
            && self.is_held(now, acquire)
            && view.record().is_some_and(is_kept)
            && (!self.roster.sees_strangers_lack(view) || hold.of.contenders.iter().all(stays))
    }

    pub(super) fn end_hold(&mut self, now: Instant, acquire: CommandId) {
        let contenders = self
            .callers
            .hold(acquire)
            .map(|hold| hold.of.contenders.clone())
            .unwrap_or_default();
        self.leave(now, &contenders);
    }

    /// Ends kept sessions without a next turn.
    pub(super) fn dismiss_spares(&mut self, now: Instant) {
        for spare in self.roster.spares().take_expired(now) {
            let no = self.add_contender(Some(spare));
            self.leave(now, &[no]);
        }
    }

    pub(super) fn leave(&mut self, now: Instant, numbers: &[ContenderNo]) {
        let moment = self.moment();
        self.roster.leave(now, moment, numbers, &self.settings);
    }

    /// These are not needed: their slots have come in another way. Their sessions are kept if more
    /// turns are expected.
    pub(super) fn set_aside(&mut self, now: Instant, numbers: &[ContenderNo]) {
        let moment = self.moment();
        let is_awaited = self.lacks_contenders();
        for no in numbers {
            let is_kept = self.roster.spares().are_of_use(is_awaited);
            if let Some(mut contender) = self.roster.get_mut(*no) {
                if is_kept {
                    contender.leave_orderly(now, moment, &self.settings);
                } else {
                    contender.leave(now, moment, &self.settings);
                }
            }
        }
    }

    /// Removes contenders of which nothing is left, and tells their callers.
    pub(super) fn remove_gone(&mut self, now: Instant) {
        let gone = self.roster.take_gone();
        if !gone.is_empty() {
            self.requests
                .abort(|from| matches!(from, From::Contender(no, _) if gone.contains_key(&no)));
        }
        self.note_leave_failures(&gone);
        for no in gone.keys() {
            self.roster.serves_nobody(*no);
        }
        let spares = gone.into_values().filter_map(|mut it| it.take_session());
        for spare in spares {
            self.roster.spares().keep(now, spare);
        }
        let roster = &mut self.roster;
        let changed = roster.take_changed_turns();
        let is_gone = |no: &ContenderNo| roster.get(*no).is_none_or(Contender::is_left_behind);
        let done = self
            .callers
            .take_given_back_of(&changed, |hold| hold.of.contenders.iter().all(is_gone));
        for (acquire, hold) in done {
            if hold.caller == Caller::Released {
                let result = match (hold.lost, hold.of.failure) {
                    (Some(lost), _) => Err(Error::Lost(lost)),
                    (None, Some(failure)) => Err(Error::Request(failure)),
                    (None, None) => Ok(()),
                };
                self.callers.done(acquire, result);
            }
        }
    }

    /// Why those that are gone, or left behind, could not leave properly.
    fn note_leave_failures(&mut self, gone: &BTreeMap<ContenderNo, Contender>) {
        let roster = &self.roster;
        if gone.is_empty() && !roster.has_any(Group::LeftBehind) {
            return;
        }
        let behind = roster.those(Group::LeftBehind).map(|(no, _)| no);
        let turns = behind.chain(gone.keys().copied());
        let turns: BTreeSet<_> = turns.filter_map(|no| roster.turn_of(no)).collect();
        for acquire in turns {
            let Some(hold) = self.callers.hold_mut(acquire) else {
                continue;
            };
            let slots = &mut hold.of;
            let left = |no: &ContenderNo| {
                let behind = || roster.get(*no).filter(|it| it.is_left_behind());
                gone.get(no).or_else(behind)?.leave_failure()
            };
            if slots.failure.is_none() {
                slots.failure = slots.contenders.iter().find_map(left).cloned();
            }
        }
    }

    /// In a crowd the record has changed since a hold in its first moments began: it is read before
    /// it is written.
    fn look_before_write(&mut self) {
        let is_in_crowd = self.outlook().is_in_crowd();
        if let Some(observed) = self.knowledge.newest_mut()
            && is_in_crowd
            && !self.watch.is_polling()
        {
            observed.outdate();
            self.knowledge.set_record_look(RecordLook::Now);
        }
    }
}
