//! A Consul in memory, for deterministic tests of code that uses the semaphore.

mod client;
pub mod consul;
mod executor;
mod fault;
mod kind;
mod mock;
mod network;
mod stats;
mod task;
mod timeline;
mod trace;
mod world;

pub use client::MockClient;
pub use fault::{Fault, Faults, Rule};
pub use kind::RequestKind;
pub use mock::MockConsul;
pub use stats::Stats;
pub use task::Task;
