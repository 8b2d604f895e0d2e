//! Who leads, from the election to the last word about it, and what the key shows meanwhile.

use crate::error::{Error, Lost};
use crate::id::CampaignId;
use crate::machine::election::candidacy::{Candidacy, Term};
use crate::machine::election::{Candidate, ElectionEvent, Hold, Owner, Sent};
use crate::time::Instant;

impl Candidate {
    /// The first in the queue leads. If nobody waits any more, the candidacy is left at once.
    pub(super) fn elect(&mut self, term: Term) {
        self.respawn.reset();
        let Some(campaign) = self.queue.head().map(|ticket| ticket.id) else {
            return;
        };
        self.queue.remove(campaign);
        self.leader = Some(campaign);
        let hold = Hold {
            lost: None,
            owner: Owner::Present,
            is_over: false,
        };
        self.holds.insert(campaign, hold);
        self.events
            .push_back(ElectionEvent::Elected { campaign, term });
    }

    pub(super) fn lose(&mut self, now: Instant, campaign: CampaignId, reason: Lost) {
        if let Some(hold) = self.holds.get_mut(&campaign) {
            hold.lost = Some(reason.clone());
        }
        self.step_down(now, campaign, Some(&reason));
        self.respawn_at = Some(now + self.respawn.next(&mut self.rng));
        self.events
            .push_back(ElectionEvent::Lost { campaign, reason });
    }

    /// The campaign leads no more, if it did.
    pub(super) fn step_down(&mut self, now: Instant, campaign: CampaignId, lost: Option<&Lost>) {
        if self.leader != Some(campaign) {
            return;
        }
        self.leave(now);
        for change in core::mem::take(&mut self.changes) {
            let result = Err(lost.cloned().map_or(Error::Closed, Error::Lost));
            let change = change.id;
            self.events
                .push_back(ElectionEvent::ValueSet { change, result });
        }
        // A resignation waits for the candidacy's end; a loss is over for whoever comes next.
        if lost.is_some() {
            self.leader = None;
        }
    }

    pub(super) fn leave(&mut self, now: Instant) {
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.leave(now, &self.settings);
        }
    }

    pub(super) fn fail_waiting(&mut self, error: &Error) {
        for ticket in self.queue.drain() {
            self.events.push_back(ElectionEvent::Failed {
                campaign: ticket.id,
                error: error.clone(),
            });
        }
    }

    /// Does what needs no request.
    pub(super) fn settle(&mut self, now: Instant) {
        let wanted = !self.queue.is_empty();
        let campaigns = |it: &Candidacy| it.is_campaigning() || it.is_leading();
        if !wanted && self.leader.is_none() && self.candidacy.as_ref().is_some_and(campaigns) {
            self.leave(now);
        }
        if self.candidacy.as_ref().is_some_and(Candidacy::is_gone) {
            self.bury();
        }
        if self.candidacy.is_none() && wanted && self.respawn_at.is_none_or(|at| at <= now) {
            self.respawn_at = None;
            let is_blind = !self.watch.start();
            let moment = self.requests.moment();
            self.candidacy = Some(Candidacy::new(&self.settings, moment, is_blind));
        }
        if !wanted && self.candidacy.is_none() {
            self.respawn_at = None;
        }
        if !self.candidacy.as_ref().is_some_and(campaigns) {
            self.watch.pause();
        }
        self.tell_resigned();
        self.end_shown_changes();
    }

    /// Nothing of the candidacy is left.
    pub(super) fn bury(&mut self) {
        let failure = self
            .candidacy
            .take()
            .and_then(|it| it.leave_failure().cloned());
        self.requests.abort(|sent| *sent != Sent::Poll);
        // One at a time leads: whatever was lost was lost with this one, or before.
        for hold in self.holds.values_mut() {
            hold.is_over |= hold.lost.is_some();
        }
        if let Some(campaign) = self.leader.take()
            && let Some(hold) = self.holds.remove(&campaign)
            && hold.owner == Owner::Resigned
        {
            let result = failure.map_or(Ok(()), |error| Err(Error::Request(error)));
            self.events
                .push_back(ElectionEvent::Resigned { campaign, result });
        }
    }

    /// Whoever resigns from what was lost is told when nothing of it is left.
    pub(super) fn tell_resigned(&mut self) {
        let over = self
            .holds
            .extract_if(.., |_, it| it.owner == Owner::Resigned && it.is_over);
        for (campaign, hold) in over {
            let result = hold.lost.map_or(Ok(()), |reason| Err(Error::Lost(reason)));
            self.events
                .push_back(ElectionEvent::Resigned { campaign, result });
        }
    }

    pub(super) fn begin_change(&mut self) {
        if let (Some(change), Some(candidacy)) = (self.changes.front(), &mut self.candidacy) {
            candidacy.set_value(change.value.clone());
        }
    }

    pub(super) fn end_change(&mut self, result: Result<(), Error>) {
        if let Some(change) = self.changes.pop_front() {
            let change = change.id;
            self.events
                .push_back(ElectionEvent::ValueSet { change, result });
            self.begin_change();
        }
    }

    pub(super) fn end_shown_changes(&mut self) {
        while !self.changes.is_empty()
            && let Some(candidacy) = &self.candidacy
            && candidacy.is_leading()
            && candidacy.is_value_set()
        {
            self.end_change(Ok(()));
        }
    }
}
