//! What driver and handles need of a machine, whatever it is for.
//!
//! The contract is every machine's: any order of polls is correct, spurious calls do nothing, and
//! each command that somebody waits for ends in an [`Outcome`].

use core::fmt;

use super::participant::Transmit;
use crate::error::{Error, Lost};
use crate::http::Response;
use crate::id::RequestId;
use crate::time::Instant;
use crate::transport::TransportError;

/// A machine that a driver runs and handles command.
pub(crate) trait Machine: Send + 'static {
    /// What a granted command has.
    type Grant: fmt::Debug + Send;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    fn poll_abort(&mut self) -> Option<RequestId>;
    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    );
    fn poll_timeout(&self) -> Option<Instant>;
    fn handle_timeout(&mut self, now: Instant);
    fn poll_outcome(&mut self) -> Option<Outcome<Self::Grant>>;

    /// Takes no more commands that would be granted.
    fn close(&mut self, now: Instant);
    /// Whether nothing is left of it, here and in Consul.
    fn is_idle(&self) -> bool;
    /// Nobody wants what this command asked for or has.
    fn cancel(&mut self, now: Instant, command: CommandNo);
    /// Gives back what was granted. Answered by [`Outcome::Done`].
    fn release(&mut self, now: Instant, command: CommandNo);
    /// Whether what was granted is held, by the clock.
    fn is_held(&self, now: Instant, command: CommandNo) -> bool;
    /// When belief in it ends by itself.
    fn deadline(&self, command: CommandNo) -> Option<Instant>;
}

/// A command whose outcome somebody waits for. A machine numbers all of its commands alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommandNo(pub(crate) u64);

/// What became of a command.
#[derive(Debug)]
pub(crate) enum Outcome<G> {
    /// What it asked for is held.
    Granted(CommandNo, G),
    /// It asked for what is there now, and there is nothing.
    NotAvailable(CommandNo),
    /// It ended without a grant.
    Failed(CommandNo, Error),
    /// What was granted is held no more.
    Lost(CommandNo, Lost),
    /// What it was to do is done, or can't be.
    Done(CommandNo, Result<(), Error>),
}
