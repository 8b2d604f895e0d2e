//! The contract of every machine with its owner: the driver and the handles here, or an event loop
//! or a test elsewhere.
//!
//! ```text
//! acquire · campaign · set_value · cancel · release · close      commands, some of them a machine's own
//! poll_transmit                           what to send
//! handle_response                         what came back, in any order, late or twice
//! poll_timeout, handle_timeout            when to call again
//! poll_event                              what happened
//! poll_notice                             the same for observers, and more
//! poll_abort                              which answers are of no more use
//! ```
//! Polls may come in any order, superfluous calls do nothing, and each command that somebody waits
//! for ends with an [`Event`].

use core::fmt;

use crate::error::{Error, Lost, Refusal};
use crate::http::{Request, Response};
use crate::id::{CommandId, RequestId};
use crate::machine::notice::Notice;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::check::{Check, CheckNews};
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::status::Status;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

/// A machine that takes commands and is driven by its owner: a
/// [`Participant`](crate::sans_io::Participant), or a [`Candidate`](crate::sans_io::Candidate).
/// Each defines what holding means.
///
/// Each machine has its own commands for asking; all others are here.
pub trait Machine: Send + 'static {
    /// The content of a grant.
    type Grant: fmt::Debug + Send;

    /// The next request to send at `now`, if there is one.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    /// A request whose answer is no longer needed. Dropping it frees its connection; an answer to
    /// it is harmless.
    fn poll_abort(&mut self) -> Option<RequestId>;
    /// Takes the outcome of a request: its answer, or its error. An unknown, superseded or already
    /// answered request changes nothing.
    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    );
    /// The same. Returns how the request ended, for an owner of many machines that wants to know
    /// whether Consul serves them.
    #[doc(hidden)]
    fn hear_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        self.handle_response(now, id, result);
        None
    }
    /// When [`Self::handle_timeout`] must be called next, if nothing else happens before.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Lets time pass.
    fn handle_timeout(&mut self, now: Instant);
    /// The outcomes of commands, in order.
    fn poll_event(&mut self) -> Option<Event<Self::Grant>>;

    /// Whether somebody asks for its notices. Otherwise it keeps none.
    fn listen(&mut self, listens: bool) {
        let _ = listens;
    }
    /// What has happened, for observers, in order. Its behaviour does not depend on whether this is
    /// called.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// The present state, as far as it is known. It sends nothing.
    fn status(&self, now: Instant) -> Status {
        let _ = now;
        Status::default()
    }

    /// Its subject, for errors.
    #[doc(hidden)]
    fn subject(&self, agent: Option<String>) -> Subject {
        let _ = agent;
        Subject::default()
    }

    /// What it wants of the sessions that it shares with other machines of the process. `None` if
    /// it shares none.
    #[doc(hidden)]
    fn poll_wish(&mut self) -> Option<LoanWish> {
        None
    }
    /// Takes news of a session that was lent to it.
    #[doc(hidden)]
    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        let _ = (now, news);
    }

    /// What to check for it while it only holds or waits, in place of a separate poll. `None` if it
    /// does not share its sessions.
    #[doc(hidden)]
    fn check(&self) -> Option<Check> {
        None
    }
    /// Takes what was read for it.
    #[doc(hidden)]
    fn handle_check(&mut self, now: Instant, news: CheckNews) {
        let _ = (now, news);
    }

    /// Fails the waiting commands, and refuses later ones. What is held stays held until it is
    /// released.
    fn close(&mut self, now: Instant);
    /// What a shutdown gives back even if its holder continues. By default nothing.
    #[doc(hidden)]
    fn given_back_at_shutdown(&self) -> Option<CommandId> {
        None
    }
    /// Whether nobody waits or holds, and nothing of it is left in Consul (except an election's
    /// key), as far as it can know. It then sends nothing.
    fn is_idle(&self) -> bool;
    /// Gives a command up, at any point. No event follows but the answer to a release, and what it
    /// left in Consul is cleaned up. If it was granted meanwhile, the grant is given back.
    fn cancel(&mut self, now: Instant, command: CommandId);
    /// Whether nobody waits for anything, and nothing is left but what could not be given back. It
    /// continues with that until [`Self::is_idle`].
    fn is_quiet(&self) -> bool {
        self.is_idle()
    }
    /// Gives a grant back. The belief ends at once, and [`Event::Done`] follows: at once after a loss,
    /// otherwise when nothing is left. Repeating it is harmless.
    fn release(&mut self, now: Instant, command: CommandId);
    /// Whether its holder may act: it was granted, not given back and not lost, and all its leases
    /// are valid at `now`. It needs no I/O, so it is right after any pause of the process.
    fn is_held(&self, now: Instant, command: CommandId) -> bool;
    /// When the belief in it ends unless a renewal succeeds before. `None` if it has ended.
    fn deadline(&self, command: CommandId) -> Option<Instant>;
}

/// A request to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Transmit {
    /// The id for its answer.
    pub id: RequestId,
    /// The request.
    pub request: Request,
}

/// The outcome of a command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<G> {
    /// It was granted.
    Granted {
        /// The command.
        command: CommandId,
        /// The grant.
        grant: G,
    },
    /// A try found nothing: no free slot, another leader, or a lock delay.
    NotAvailable {
        /// The command.
        command: CommandId,
        /// Why.
        refusal: Refusal,
    },
    /// It failed. What it left in Consul is being cleaned up, until [`Machine::is_idle`].
    Failed {
        /// The command.
        command: CommandId,
        /// Why.
        error: Error,
    },
    /// A grant was lost.
    Lost {
        /// The command.
        command: CommandId,
        /// Why.
        reason: Lost,
    },
    /// It is done, or can't be done. For a release: nothing is left in Consul, or nothing more can
    /// be done about it; a slot that passes to the next local caller belongs to that caller from
    /// then on. For a value: it is shown.
    Done {
        /// The command.
        command: CommandId,
        /// The first failure that mattered. Then the machine continues in the background until
        /// Consul has confirmed that nothing is left.
        result: Result<(), Error>,
    },
}

impl<G> Event<G> {
    /// The command of this event.
    pub fn command(&self) -> CommandId {
        match self {
            Self::Granted { command, .. }
            | Self::NotAvailable { command, .. }
            | Self::Failed { command, .. }
            | Self::Lost { command, .. }
            | Self::Done { command, .. } => *command,
        }
    }
}
