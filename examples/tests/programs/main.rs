//! Every program, run as a user runs it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod bad_input;
mod by_environment;
mod candidate;
mod contend;
mod crashed;
mod elected;
mod leaders;
mod short_programs;
mod sockets;
mod support;
mod watched;
