//! What threads share in handles and driver, and in the workers of `transport-ureq`, run under a
//! scheduler that chooses their order.
//!
//! Only in builds with `--cfg semaphore_races`, as `scripts/races` makes them: there each lock, flag and
//! waker of the core is a step, after which [shuttle](https://docs.rs/shuttle) lets some thread go on,
//! drawn from a seed. A thread that waits for what never comes is found as a deadlock, and a schedule
//! that fails is printed so that it can be replayed.
//!
//! ```text
//!   scene: threads, tasks ──► handles ──► shared ◄── driver      the core, with its steps
//!                                                      │
//!                                     World: Transport, Runtime
//!                                                      │
//!                                  the Consul in memory
//! ```
//! Pauses between two tries end, timers of seconds never do: so none hides a wake-up that was
//! forgotten.

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
