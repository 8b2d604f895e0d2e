//! Many semaphores at once, most of them on real agents. It is a separate program, since it takes
//! longest and so must begin first.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod fleet;
#[path = "../programs/support.rs"]
#[allow(dead_code, reason = "what the other programs need")]
mod support;
