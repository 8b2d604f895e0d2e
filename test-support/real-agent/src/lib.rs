//! Real Consul agents for this workspace's tests: started on free loopback ports, hurt on demand,
//! and gone whatever happens to the test.
//!
//! ```text
//! test process                             own process group
//! ┌───────────────────────────┐  pipe      ┌──────────────────────────┐
//! │ Agent / Cluster ─ Process ├───────────►│ sh (watchdog) ─► consul   │
//! │ Client ── HTTP ───────────┼───────────────────────────►            │
//! │ Proxy ◄── the code tested │            └──────────────────────────┘
//! └───────────────────────────┘
//! ```
//! - [`Agent`]: one server in development mode, its state in memory. It starts in less than a
//!   second, so a test that hurts its agent has a separate one; the others of a process can use
//!   [`Agent::shared`].
//! - [`Cluster`]: three servers that elect a leader.
//! - [`Proxy`]: a TCP proxy that falls silent, as a partitioned network does, or slow.
//! - [`Gateway`]: a web server that knows nothing of what is asked.
//! - [`Client`]: plain requests for setting a scene and judging it, such as
//!   [`Client::assert_nothing_left`].
//!
//! The binary comes from `scripts/consul`. Where there is none, starting fails: no test is
//! skipped. A watchdog ends an agent as soon as the pipe from the test process closes, which
//! the operating system sees to even when the process is killed or its statics are never dropped.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = real_agent::Agent::start()?;
//! agent.client().put("/v1/kv/service/db/.lock", b"{}")?;
//! assert_eq!(agent.client().get("/v1/kv/service/db/.lock?raw")?.body, b"{}");
//! # Ok(())
//! # }
//! ```

mod agent;
mod binary;
mod client;
mod cluster;
mod error;
mod gateway;
mod given_up;
mod leftovers;
mod ports;
mod process;
mod proxy;

pub use agent::{Agent, Builder};
pub use client::{Answer, Client};
pub use cluster::{Cluster, SERVERS};
pub use error::StartError;
pub use gateway::Gateway;
pub use given_up::GivenUp;
pub use leftovers::{Leftovers, assert_nothing_left};
pub use proxy::{Proxy, Traffic};
