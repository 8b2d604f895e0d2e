//! A Consul in memory, for deterministic tests of code that uses the semaphore.

mod client;
pub mod consul;
mod executor;
mod fault;
mod kind;
#[cfg(feature = "loopback")]
mod loopback;
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
#[cfg(feature = "loopback")]
pub use loopback::LoopbackConsul;
pub use mock::{MockConsul, TimeHold};
pub use stats::Stats;
pub use task::Task;
