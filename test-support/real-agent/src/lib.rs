//! Real Consul agents for this workspace's tests. They use free loopback ports, can be disturbed on
//! demand, and end whatever happens to the test.
//!
//! ```text
//! test process                             own process group
//! ┌───────────────────────────┐  pipe      ┌──────────────────────────┐
//! │ Agent / Cluster ─ Process ├───────────►│ sh (watchdog) ─► consul   │
//! │ Client ── HTTP ───────────┼───────────────────────────►            │
//! │ Proxy ◄── the code tested │            └──────────────────────────┘
//! └───────────────────────────┘
//! ```
//! - [`Agent`]: one server in development mode, with its state in memory. It starts in less than a
//!   second, so a test that disturbs its agent has a separate one. Other tests of a process can use
//!   [`Agent::shared`].
//! - [`Cluster`]: three servers that elect a leader.
//! - [`Proxy`]: a TCP proxy that can become silent, as a partitioned network, or slow.
//! - [`Gateway`]: a web server that knows none of the requested paths.
//! - [`Client`]: plain requests for preparing a test and checking its result, such as
//!   [`Client::assert_nothing_left`].
//!
//! The binary comes from `scripts/consul`. Without it, starting fails: no test is skipped. A
//! watchdog ends an agent as soon as the pipe from the test process closes. The operating system
//! closes the pipe even if the process is killed or its statics are never dropped.
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
