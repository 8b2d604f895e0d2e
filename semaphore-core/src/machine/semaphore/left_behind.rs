//! What could not be given back: the participant goes on until Consul has confirmed that it is gone (invariant L2).
//!
//! Whose it was has been told why it takes longer, and nobody waits for it here: only others do, for the slot. So after a
//! failure it rests, for an eighth of the time for which it has tried: what lasted for 38 s is over 5 s
//! after Consul is back, and what never ends takes one request a minute.

use std::collections::BTreeMap;

use crate::defect::{Defect, is_on};
use crate::machine::process::tenancy::departure::rest_after_failure;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::Contender;
use crate::machine::semaphore::roster::Group;
use crate::time::Instant;

impl Participant {
    /// Whether nothing is left to do but that.
    pub(super) fn has_only_left_behind(&self) -> bool {
        self.callers.queue().is_empty() && self.roster.has_only_left_behind()
    }

    /// A request failed.
    pub(super) fn rest_after_failure(&mut self, now: Instant) {
        if !self.has_only_left_behind() {
            return;
        }
        let left_at = |it: &Contender| it.left_at(&self.settings);
        let Some(since) = self.roster.all().filter_map(left_at).min() else {
            return;
        };
        let until = rest_after_failure(since, now, &self.settings.session);
        self.roster.rest_until(until);
    }

    /// Until when nothing is sent.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.roster
            .rests_until()
            .filter(|_| self.has_only_left_behind())
    }

    /// Of more than can be remembered the oldest are given up.
    pub(super) fn bound_left_behind(&mut self) {
        let left = self.roster.numbers_of(Group::LeftBehind);
        let most = if is_on(Defect::ReleaseGivenUp) {
            0
        } else {
            MOST_LEFT_BEHIND
        };
        let excess = left.len().saturating_sub(most);
        for no in left.into_iter().take(excess) {
            if let Some(mut contender) = self.roster.get_mut(no) {
                tracing::warn!(name: "given-up", session = ?contender.session_id(), "leaves a session to its TTL");
                contender.abandon();
            }
        }
    }

    /// Why those could not leave that are gone, or are left behind.
    pub(super) fn note_leave_failures(&mut self, gone: &BTreeMap<ContenderNo, Contender>) {
        let roster = &self.roster;
        if gone.is_empty() && !roster.has_any(Group::LeftBehind) {
            return;
        }
        for hold in self.callers.holds_mut() {
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
}

/// So many contenders of one participant are remembered at most.
const MOST_LEFT_BEHIND: usize = 64;
