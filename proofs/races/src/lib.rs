//! The state that threads share in handles, driver and the workers of `transport-ureq`, run under a
//! scheduler that chooses their order.
//!
//! It only exists in builds with `--cfg semaphore_races`, as `scripts/races` makes them. In these
//! each lock, flag and waker of the core is a step. After each step
//! [shuttle](https://docs.rs/shuttle) lets some thread continue, drawn from a seed. A thread that
//! waits for something that never comes is reported as a deadlock. A failing schedule is printed,
//! so that it can be replayed.
//!
//! ```text
//!   scene: threads, tasks ──► handles ──► shared ◄── driver      the core, with its steps
//!                                                      │
//!                                     World: Transport, Runtime
//!                                                      │
//!                                  the Consul in memory
//! ```
//! Pauses between two tries end, but timers of seconds never do. So no timer hides a forgotten
//! wake-up.

#![cfg(semaphore_races)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "helpers of tests"
)]

mod check;
mod world;

pub use check::{check, sometime};
pub use world::World;
