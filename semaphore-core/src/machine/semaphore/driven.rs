//! A participant as the driver and the handles know it.

use crate::http::Response;
use crate::id::{AcquireId, RequestId};
use crate::machine::contract::Transmit;
use crate::machine::contract::{CommandNo, Machine, Outcome};
use crate::machine::semaphore::{Event, Grant, Participant};
use crate::time::Instant;
use crate::transport::TransportError;

impl From<AcquireId> for CommandNo {
    fn from(acquire: AcquireId) -> Self {
        Self(acquire.0)
    }
}

impl From<CommandNo> for AcquireId {
    fn from(command: CommandNo) -> Self {
        Self(command.0)
    }
}

impl Machine for Participant {
    type Grant = Grant;

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

    fn poll_outcome(&mut self) -> Option<Outcome<Grant>> {
        Some(match self.poll_event()? {
            Event::Granted { acquire, grant } => Outcome::Granted(acquire.into(), grant),
            Event::NotAvailable { acquire } => Outcome::NotAvailable(acquire.into()),
            Event::Failed { acquire, error } => Outcome::Failed(acquire.into(), error),
            Event::Lost { acquire, reason } => Outcome::Lost(acquire.into(), reason),
            Event::Released { acquire, result } => Outcome::Done(acquire.into(), result),
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
        self.release(now, command.into());
    }

    fn is_held(&self, now: Instant, command: CommandNo) -> bool {
        self.is_held(now, command.into())
    }

    fn deadline(&self, command: CommandNo) -> Option<Instant> {
        self.deadline(command.into())
    }
}
