//! The state machines: no I/O, no clock, no thread. Same inputs, same outputs, always.
//!
//! ```text
//!                        Participant          commands, polls and events
//!     ┌───────────┬──────────┼──────────┬──────────┐
//!   Watch     Vanished     Ledger     queue    Contender  one per slot that is wanted, held or left
//! long poll   may they   writes of  callers    ┌──┴─────┐
//!            be pruned?  the record           Session  ContenderKey
//!                            │
//!                           plan                which write comes next: the rules of admission
//!                         encoding              how a step becomes a request
//!
//!                         Candidate            commands, polls and events
//!                  ┌──────────┼──────────┐
//!              KeyWatch     queue    Candidacy   one campaign and its leadership
//!              long poll   callers       │
//!                                     Session
//! ```
//! [`Follow`] stands alone: it watches one key and writes nothing.

mod backoff;
mod budget;
mod contender;
mod cursor;
mod driven;
mod election;
mod encoding;
#[cfg(test)]
mod fixture;
mod follow;
mod key;
mod key_watch;
mod lease;
mod ledger;
mod order;
mod participant;
mod plan;
mod queue;
mod session;
mod session_settings;
mod settings;
mod vanished;
mod watch;

pub(crate) use backoff::{Backoff, jitter};
pub(crate) use budget::{Budget, READ_BURST, READ_INTERVAL};
pub use driven::{CommandNo, Machine, Outcome};
pub use election::{Candidate, ElectionEvent, ElectionSettings, Term};
pub use encoding::Encoding;
pub use follow::{Follow, LeaderEvent};
pub use participant::{Event, Grant, Participant, Transmit};
pub use settings::Settings;
