//! The behaviours of a semaphore again, with the guide's separate requests.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

/// How the steps of the protocol become requests in this program.
const ENCODING: semaphore_core::Encoding = semaphore_core::Encoding::Requests;

include!("behaviours.rs");
