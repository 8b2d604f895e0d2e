//! The end of a claim: its write is applied, or a view shows that it was. Then it is a grant, or
//! nobody wants it.

use std::collections::BTreeSet;

use crate::defect::{Defect, is_on};
use crate::id::{FencingToken, Index};
use crate::machine::callers::{Patience, Ticket};
use crate::machine::process::tenancy::session::Among;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::{Contender, Presence};
use crate::machine::semaphore::ledger::{Claim, Sent};
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::steps::After;
use crate::machine::semaphore::{Grant, Participant, Slots};
use crate::time::Instant;
use crate::view::View;

impl Participant {
    pub(super) fn apply(&mut self, now: Instant, sent: &Sent, after: Option<&After>) {
        let moment = self.moment();
        for (no, key) in after.iter().flat_map(|after| &after.locked) {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.locked(moment, key.clone());
            }
        }
        // Those whose key the answer does not show enter again.
        for no in sent.rest.entering() {
            if let Some(mut contender) = self.roster.get_mut(no) {
                contender.write_ended();
            }
        }
        for no in &sent.write.withdraw {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                let deletes = |session| after.is_some() && sent.rest.deletes_key_of(session);
                if contender.session_id().is_some_and(deletes) {
                    contender.key_deleted(moment);
                }
                // If the answer shows nothing, a separate request deletes the key.
                contender.write_ended();
                contender.withdrawn(moment);
            }
        }
        let index = after.map_or(Index::ZERO, |after| after.index);
        // If the record is missing, one existed and was deleted.
        let base = match sent.write.base {
            Index::ZERO => index,
            base => base,
        };
        for no in &sent.write.admit {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                contender.write_ended();
                contender.admitted(base);
            }
        }
        if !sent.write.admit.is_empty() {
            for claim in self.ledger.take_claims() {
                self.grant(now, claim, index);
            }
        }
    }

    /// Settles claims that a view shows before their answer, or whose answer was lost: either all contenders that they
    /// admit are in the record, or none is. If they were in it before, that says nothing: they wait for the answer, and
    /// leave if it is lost.
    pub(super) fn settle_claims(&mut self, now: Instant, view: &View) {
        let is_open = |claim: &Claim| view.record_index() == claim.base;
        if self.ledger.claims().first().is_none_or(is_open) {
            return;
        }
        let created = view.lock().map_or(Index::ZERO, |it| it.create_index);
        for claim in self.ledger.take_settled_claims() {
            let is_named = |no: &ContenderNo| {
                let contender = self.roster.get(*no);
                contender.is_some_and(|it| matches!(it.presence(), Presence::Yes(_)))
            };
            if claim.contenders.iter().all(is_named) && !claim.was_listed {
                tracing::debug!(name: "claim-found", "a claim without an answer was applied");
                self.grant(now, claim, created);
            }
        }
    }

    /// The record names the claim's contenders. `created` is its creation index, if the claim has
    /// created it. The claim is a grant if its caller still waits and all leases are valid;
    /// otherwise they leave again.
    fn grant(&mut self, now: Instant, claim: Claim, created: Index) {
        let is_wanted = claim.contenders.iter().all(|no| {
            self.roster
                .get(*no)
                .is_some_and(|contender| contender.is_admissible(now))
        });
        let to_nobody = is_on(Defect::CancelledClaimGranted);
        let nobody = Ticket {
            id: claim.acquire,
            permits: 1,
            since: now,
            patience: Patience::Unlimited,
        };
        let ticket = is_wanted
            .then(|| self.callers.take(claim.acquire))
            .flatten();
        let Some(ticket) = ticket.or((is_wanted && to_nobody).then_some(nobody)) else {
            self.leave(now, &claim.contenders);
            return;
        };
        let mut token = claim.token(created);
        let mut sequencers = Vec::new();
        let among = Among::of(self.roster.count(Group::Held));
        for no in &claim.contenders {
            if let Some(mut contender) = self.roster.get_mut(*no) {
                if is_on(Defect::TokenOfQueue) {
                    token = FencingToken(contender.create_index().unwrap_or_default().0);
                }
                contender.hold(now, claim.acquire, among);
                sequencers.extend(contender.sequencer(&self.settings));
            }
            self.roster.serves(*no, claim.acquire);
        }
        let grant = Grant { token, sequencers };
        let slots = Slots {
            contenders: claim.contenders,
            failure: None,
        };
        self.callers.granted(now, &ticket, (token, grant), slots);
    }

    /// A claim that was replaced by another one may have been the one that was applied. Its
    /// contenders then have a slot that nobody waits for.
    pub(super) fn dismiss_unclaimed(&mut self, now: Instant) {
        let claims = self.ledger.claims().iter();
        let claimed = claims.flat_map(|claim| &claim.contenders);
        let claimed: BTreeSet<_> = claimed.collect();
        let is_admitted =
            |it: &Contender| it.is_claiming() && matches!(it.presence(), Presence::Yes(_));
        let wanting = self.roster.those(Group::Wanting);
        let unclaimed = wanting.filter(|(no, it)| is_admitted(it) && !claimed.contains(no));
        let unclaimed: Vec<_> = unclaimed.map(|(no, _)| no).collect();
        self.leave(now, &unclaimed);
    }
}
