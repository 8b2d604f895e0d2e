//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod acquire;
mod aftermath;
mod environment;
mod foreign_clients;
mod host;
mod hostile_answers;
mod limit;
mod partition;
mod permanent_failures;
mod pruning;
mod record_conflicts;
mod request_rates;
mod restored_snapshot;
mod seeded_chaos;
mod support;
mod transient_failures;
mod unknown_outcomes;
