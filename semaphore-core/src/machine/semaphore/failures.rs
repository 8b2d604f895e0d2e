//! Whose wait fails: for something that the record can't give, that Consul refuses, or that an
//! instant try does not find.

use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::id::CommandId;
use crate::input::InvalidInput;
use crate::machine::callers::{Patience, Ticket};
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::Room;
use crate::machine::semaphore::roster::Group;
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;
use crate::view::View;

impl Participant {
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
    pub(super) fn judge_record(&mut self, now: Instant) {
        if self.callers.queue().is_empty() {
            return;
        }
        let Some(observed) = self.knowledge.current() else {
            return;
        };
        let view = &observed.view;
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
    pub(super) fn judge_tries(&mut self, now: Instant) {
        while let Some((permits, room)) = self.hopeless_try(now) {
            // What is too much for one is also too much for later ones that want as much.
            while let Some(head) = self.callers.queue().head().copied()
                && head.patience == Patience::None
                && head.permits >= permits
                && let Some(refusal) = room.refusal(head.permits)
            {
                self.callers.take(head.id);
                self.callers.not_available(head.id, refusal);
            }
        }
    }

    /// If the first in the queue is an instant try for which nothing is free: its permits and the
    /// reason.
    fn hopeless_try(&self, now: Instant) -> Option<(u32, Room)> {
        let observed = self.knowledge.current()?;
        let head = *self.callers.queue().head()?;
        if head.patience != Patience::None {
            return None;
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
        Some((head.permits, room))
    }
}
