//! What a semaphore does on real Consul agents, on plain threads and on smol: what depends on them.
//! `real_agent_whole.rs` has the rest, too.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/real_agent.rs"]
mod support;

mod threads {
    use crate::support::Threads;

    real_agent_suite::tests_of_the_backend!(Threads);
}

#[cfg(feature = "smol")]
mod smol {
    use crate::support::Smol;

    real_agent_suite::tests_of_the_backend!(Smol);
}
