//! The Consul in memory without a real agent: time, determinism, and the controls that a plain
//! agent does not have. `conformance/` compares its answers with a real agent.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod acl;
mod bench;
mod blocking;
mod determinism;
mod leader;
mod levers;
mod limits;
mod names;
mod profiles;
mod sessions;
mod snapshots;
mod tenancies;
mod tombstones;
