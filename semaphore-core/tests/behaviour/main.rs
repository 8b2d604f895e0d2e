//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.

mod acquire;
mod bad_input;
mod by_hand;
mod callers_session;
mod fencing;
mod handles;
mod limit;
mod loss;
mod manage;
mod queue;
mod release;
mod sequencer;
mod session;
mod several_permits;
mod spy;
mod stranger;
mod support;
mod timeout_and_cancel;
mod try_acquire;
