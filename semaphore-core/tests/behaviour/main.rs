//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.

mod acquire;
mod callers_session;
mod limit;
mod loss;
mod queue;
mod release;
mod session;
mod several_permits;
mod spy;
mod stranger;
mod support;
mod timeout_and_cancel;
mod try_acquire;
