//! The behaviours of a semaphore again, with separate requests as in Consul's guide.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

/// How this program encodes the steps of the protocol.
const ENCODING: semaphore_core::Encoding = semaphore_core::Encoding::Requests;

mod client;
mod cost;
mod election;
mod failures;
mod follow;
mod lease;
mod machine;
mod queue;
mod record;
mod support;
mod turn;
mod watched;
