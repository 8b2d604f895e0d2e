//! How a semaphore behaves, one file per behaviour, on virtual time against the Consul in memory.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod acquire;
mod aftermath;
mod bad_input;
mod bench;
mod by_hand;
mod callers_session;
mod claim_under_way;
mod dead_poll;
mod environment;
mod error_texts;
mod fencing;
mod foreign_clients;
mod handles;
mod hostile_answers;
mod late_answers;
mod limit;
mod loss;
mod manage;
mod operation_by_hand;
mod partition;
mod permanent_failures;
mod pruning;
mod queue;
mod record_conflicts;
mod release;
mod request_limits;
mod request_rates;
mod restored_snapshot;
mod scope;
mod sequencer;
mod session;
mod several_permits;
mod spy;
mod stale_views;
mod standing_clock;
mod stranger;
mod superseded_claim;
mod support;
mod timeout_and_cancel;
mod transactions_by_hand;
mod transient_failures;
mod try_acquire;
mod unknown_outcomes;
mod wakers;
