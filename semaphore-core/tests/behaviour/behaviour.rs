//! How semaphores and elections behave, on virtual time against the Consul in memory: one folder per promise, one
//! file per behaviour.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod client;
mod cost;
mod election;
mod failures;
mod follow;
mod lease;
mod machine;
mod protocol;
mod queue;
mod record;
mod support;
mod turn;
mod watched;
