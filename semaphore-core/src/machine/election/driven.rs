//! A candidate as the driver and the handles know it.

use crate::http::Response;
use crate::id::{CampaignId, ChangeId, RequestId};
use crate::machine::contract::Transmit;
use crate::machine::contract::{CommandNo, Machine, Outcome};
use crate::machine::election::{Candidate, ElectionEvent, Term};
use crate::time::Instant;
use crate::transport::TransportError;

impl From<CampaignId> for CommandNo {
    fn from(campaign: CampaignId) -> Self {
        Self(campaign.0)
    }
}

impl From<ChangeId> for CommandNo {
    fn from(change: ChangeId) -> Self {
        Self(change.0)
    }
}

impl From<CommandNo> for CampaignId {
    fn from(command: CommandNo) -> Self {
        Self(command.0)
    }
}

impl Machine for Candidate {
    type Grant = Term;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_transmit(now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        self.poll_abort()
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.handle_response(now, id, result);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn poll_outcome(&mut self) -> Option<Outcome<Term>> {
        Some(match self.poll_event()? {
            ElectionEvent::Elected { campaign, term } => Outcome::Granted(campaign.into(), term),
            ElectionEvent::NotAvailable { campaign } => Outcome::NotAvailable(campaign.into()),
            ElectionEvent::Failed { campaign, error } => Outcome::Failed(campaign.into(), error),
            ElectionEvent::Lost { campaign, reason } => Outcome::Lost(campaign.into(), reason),
            ElectionEvent::ValueSet { change, result } => Outcome::Done(change.into(), result),
            ElectionEvent::Resigned { campaign, result } => Outcome::Done(campaign.into(), result),
        })
    }

    fn close(&mut self, now: Instant) {
        self.close(now);
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn cancel(&mut self, now: Instant, command: CommandNo) {
        self.cancel(now, command.into());
    }

    fn release(&mut self, now: Instant, command: CommandNo) {
        self.resign(now, command.into());
    }

    fn is_held(&self, now: Instant, command: CommandNo) -> bool {
        self.is_leader(now, command.into())
    }

    fn deadline(&self, command: CommandNo) -> Option<Instant> {
        self.deadline(command.into())
    }
}
