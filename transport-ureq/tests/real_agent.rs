//! What depends on plain threads or smol, on real Consul agents. `real_agent_whole.rs` runs the
//! whole suite.

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
