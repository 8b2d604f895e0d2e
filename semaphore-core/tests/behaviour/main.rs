//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.

mod acquire;
mod aftermath;
mod callers_session;
mod host;
mod limit;
mod loss;
mod partition;
mod permanent_failures;
mod pruning;
mod queue;
mod record_conflicts;
mod release;
mod restored_snapshot;
mod seeded_chaos;
mod session;
mod several_permits;
mod spy;
mod stranger;
mod support;
mod timeout_and_cancel;
mod transient_failures;
mod try_acquire;
mod unknown_outcomes;
