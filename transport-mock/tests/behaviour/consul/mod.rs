//! The Consul in memory on its own: time, determinism, and the levers that a plain agent does not
//! have. What it answers to requests is compared with a real agent in `conformance/`.

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
