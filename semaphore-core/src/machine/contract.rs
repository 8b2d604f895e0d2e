//! What the owner of a machine needs of it, whatever it is for: the driver and the handles here, an
//! event loop or a test elsewhere.
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
//! Any order of polls is correct, spurious calls do nothing, and each command that somebody waits for ends in
//! an [`Event`].

use core::fmt;

use crate::error::{Error, Lost, Refusal};
use crate::http::{Request, Response};
use crate::id::{CommandId, RequestId};
use crate::machine::command::Commanded;
use crate::machine::notice::Notice;
use crate::machine::process::reader::check::{Check, CheckNews};
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

/// A machine that takes commands and is run by its owner: a [`Participant`](crate::sans_io::Participant), or a
/// [`Candidate`](crate::sans_io::Candidate), which say what they mean by holding.
///
/// Only the commands that ask for something are its own alone.
pub trait Machine: Send + 'static {
    /// What a granted command has.
    type Grant: fmt::Debug + Send;

    /// The next request to send at `now`, if there is one.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    /// A request whose answer is of no more use. Dropping it frees its connection; answering it all the same is
    /// harmless.
    fn poll_abort(&mut self) -> Option<RequestId>;
    /// Takes what came back for a request: its answer, or why there is none. An answer to a request that is unknown,
    /// superseded or answered already changes nothing.
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
    /// What became of a command, in order.
    fn poll_event(&mut self) -> Option<Event<Self::Grant>>;

    /// Whether somebody asks for its notices. Without that it keeps none.
    fn listen(&mut self, listens: bool) {
        let _ = listens;
    }
    /// What has happened, for observers, in order. Nothing depends on whether it is asked for.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// The commands that it was given since this was asked last, if it was told to keep them, for a recorder.
    #[doc(hidden)]
    fn poll_command(&mut self) -> Option<Commanded> {
        None
    }
    /// Keeps the commands that it is given from now on.
    #[doc(hidden)]
    fn keep_commands(&mut self) {}

    /// What it is about, for its errors.
    #[doc(hidden)]
    fn subject(&self, agent: Option<String>) -> Subject {
        let _ = agent;
        Subject::default()
    }

    /// What it wants of the sessions that it shares with other machines of the process. Nothing, unless it shares any.
    #[doc(hidden)]
    fn poll_wish(&mut self) -> Option<LoanWish> {
        None
    }
    /// Takes what is known of a session that was lent to it.
    #[doc(hidden)]
    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        let _ = (now, news);
    }

    /// What it wants to be told while it only holds, in place of a separate poll. Nothing, unless it shares its sessions.
    #[doc(hidden)]
    fn check(&self) -> Option<Check> {
        None
    }
    /// Takes what was read for it.
    #[doc(hidden)]
    fn handle_check(&mut self, now: Instant, news: CheckNews) {
        let _ = (now, news);
    }

    /// Takes no more commands that would be granted, and fails those that wait. What is held stays so until it is
    /// released.
    fn close(&mut self, now: Instant);
    /// What is given back when it is shut down, also where its holder goes on. Nothing, unless it says so.
    #[doc(hidden)]
    fn given_back_at_shutdown(&self) -> Option<CommandId> {
        None
    }
    /// Whether nobody waits or holds, and nothing of it is left in Consul (but an election's key), as far as it can
    /// know. It sends nothing then.
    fn is_idle(&self) -> bool;
    /// Gives a command up, at whatever point it is. No event follows; what it has left in Consul is cleaned up. What was
    /// granted meanwhile is given back.
    fn cancel(&mut self, now: Instant, command: CommandId);
    /// Whether nobody has anything to wait for. What could not be given back may be left: it goes on with that until
    /// [`Self::is_idle`].
    fn is_quiet(&self) -> bool {
        self.is_idle()
    }
    /// Gives back what was granted. Answered by [`Event::Done`]; belief ends at once. Repeating it is harmless.
    fn release(&mut self, now: Instant, command: CommandId);
    /// Whether its holder may act: it was granted, not given back, not lost, and every lease of it holds at `now`. No
    /// I/O, so it is right after any pause of the process.
    fn is_held(&self, now: Instant, command: CommandId) -> bool;
    /// When belief in it ends unless a renewal succeeds before; none when it has ended.
    fn deadline(&self, command: CommandId) -> Option<Instant>;
}

/// A request to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Transmit {
    /// What its answer must name.
    pub id: RequestId,
    /// The request.
    pub request: Request,
}

/// What became of a command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<G> {
    /// What it asked for is held.
    Granted {
        /// Whose it is.
        command: CommandId,
        /// With what.
        grant: G,
    },
    /// It asked for what is there now, and there is nothing: no free slot, another leader, a lock delay.
    NotAvailable {
        /// Whose it was.
        command: CommandId,
        /// Why.
        refusal: Refusal,
    },
    /// It ended without a grant. What it left in Consul is being cleaned up, until [`Machine::is_idle`].
    Failed {
        /// Whose it was.
        command: CommandId,
        /// Why.
        error: Error,
    },
    /// What was granted is held no more.
    Lost {
        /// Whose it was.
        command: CommandId,
        /// Why.
        reason: Lost,
    },
    /// What it was to do is done, or can't be. Of what was given back nothing is left in Consul then, or nothing more can
    /// be done about it; a slot that passes to the next local caller is that caller's from then on. A value is shown.
    Done {
        /// Which one.
        command: CommandId,
        /// The first failure on the way, where there was one that mattered. Then the machine goes on in the background
        /// until Consul has confirmed that nothing is left.
        result: Result<(), Error>,
    },
}

impl<G> Event<G> {
    /// Which command it is about.
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
