//! The whole suite on real Consul agents, on plain threads and on smol. It runs only on demand, as
//! in `scripts/nightly`. For each change, transport-reqwest's tests run the whole suite on tokio.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/real_agent.rs"]
mod support;

mod threads {
    use crate::support::Threads;

    real_agent_suite::tests!(Threads);
}

#[cfg(feature = "smol")]
mod smol {
    use crate::support::Smol;

    real_agent_suite::tests!(Smol);
}
