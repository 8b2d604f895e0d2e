//! What whoever runs a machine needs of it, whatever it is for: the driver and the handles here, an
//! event loop or a test elsewhere.
//!
//! The contract is every machine's: any order of polls is correct, spurious calls do nothing, and
//! each command that somebody waits for ends in an [`Outcome`].

use core::fmt;

use crate::error::{Error, Lost};
use crate::http::{Request, Response};
use crate::id::RequestId;
use crate::time::Instant;
use crate::transport::TransportError;

/// A machine that takes commands and is run by its owner: a [`Participant`](crate::Participant), or a
/// [`Candidate`](crate::Candidate). Each of them has the same methods of its own, where more is said.
///
/// Only the commands that ask for something are its own alone: what they answer with becomes a
/// [`CommandNo`].
pub trait Machine: Send + 'static {
    /// What a granted command has.
    type Grant: fmt::Debug + Send;

    /// The next request to send at `now`, if there is one.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    /// A request whose answer is of no more use.
    fn poll_abort(&mut self) -> Option<RequestId>;
    /// Takes what came back for a request, in any order, late or twice.
    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    );
    /// When [`Self::handle_timeout`] must be called next, if nothing else happens before.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Lets time pass.
    fn handle_timeout(&mut self, now: Instant);
    /// What became of a command.
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

/// A request to send.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// What its answer must name.
    pub id: RequestId,
    /// The request.
    pub request: Request,
}

/// A command whose outcome somebody waits for. A machine numbers all of its commands alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandNo(pub(crate) u64);

/// What became of a command.
#[derive(Debug)]
pub enum Outcome<G> {
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
