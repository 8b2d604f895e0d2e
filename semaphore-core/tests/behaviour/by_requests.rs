//! The behaviours of a semaphore again, with the guide's separate requests.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

/// How the steps of the protocol become requests in this program.
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
