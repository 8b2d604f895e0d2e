//! The semaphore on plain threads and on smol, with ureq. The crate does not depend on tokio.
//!
//! ```no_run
//! use transport_ureq::{UreqTransport, blocking::Semaphore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let transport = UreqTransport::new("http://127.0.0.1:8500")?;
//! let semaphore = Semaphore::builder("service/db", 3).value("node-1").connect(transport)?;
//! let permit = semaphore.acquire()?;
//! println!("one of three, with token {}", permit.fencing_token());
//! permit.release()?; // or drop it
//! semaphore.shutdown();
//! # Ok(())
//! # }
//! ```
//! [`UreqTransport`] sends the requests and runs the tasks: it is the core's [`Transport`] and [`Runtime`]. On smol use
//! `SmolTransport`, and `Semaphore` in place of `blocking::Semaphore`. The crate re-exports the parts of `semaphore-core` that you need.
//!
//! # What to do on loss
//! A permit is lost if Consul is silent for longer than the lease, or if its session ends early. Then stop the work. Ask
//! [`is_held`](blocking::Permit::is_held) before each step, and give [`lost_signal`](blocking::Permit::lost_signal) to other threads. Only a
//! resource that refuses old fencing tokens is safe from a pause between check and step.
//!
//! # Logs
//! ureq logs through the crate `log`. At TRACE it logs the bytes of a request. The token is never among
//! them, since ureq does not get it.
//!
//! # Features
//! - `tls` (default): `https://` agents, with rustls and ring. Without this feature such an address is
//!   [`BuildError::TlsNotBuilt`].
//! - `smol`: `SmolTransport`, for programs on smol.
//! - `metrics`: `observe::Metrics`, figures for the facade `metrics`.
//! - `serialize`: what `inspect` returns can be serialized by serde.
//!
//! # The clock
//! Leases end by a clock that keeps running while the machine is suspended. The crate `boot-time` reads `CLOCK_BOOTTIME` on Linux,
//! `mach_continuous_time` on macOS and the performance counter on Windows. On FreeBSD, and in a paused virtual machine, the clock may
//! stop: `docs/CLOCKS.md` in the repository says what to do then.
//!
//! # Where to go next
//! Read [`blocking`] and [`Builder`] here. The repository's README has other ways to acquire, many semaphores, elections, shutdown
//! and tests. Its `docs/guides` has guides with code: TTL, loss, fencing, ACLs.
//!
//! [`Transport`]: semaphore_core::adapter::Transport
//! [`Runtime`]: semaphore_core::adapter::Runtime

#![cfg_attr(docsrs, feature(doc_cfg))]

//   send(request) ──job──► a resting worker, or a new one
//        ▲                 ┌──────────────────────────────────┐
//        │                 │ thread + agent + its connection  │──► the agent
//        └─────answer──────│ then rests, and ends after a time │
//   dropped: shutdown() ──►└──────────────────────────────────┘
//
// A worker serves one request of one `Lane` at a time. So a renewal never waits behind a long poll,
// and giving up a request closes only that request's connection.
// `TransportBuilder::max_connections` sets the number of lanes.
//
// | file | says |
// |---|---|
// | `builder` | which options there are |
// | `transport` | the handle |
// | `workers` | the threads: start, rest, cancel, end |
// | `sync` | what they share and wait with |
// | `client` | one request and its answer, on a worker's thread |
// | `dial`, `socket` | how a connection is opened, and one to a socket of the file system |
// | `peers` | which server it goes to |
// | `connection` | how the token is sent without ureq's knowing it, and what ends an answer |
// | `failure` | what is known of a request that failed |
// | `tls` | whom to trust, and who we are |
// | `disk` | the system's files |
// | `runtime`, `on_smol` | clock and timer |
// | `tasks` | the thread of all tasks |
// | `reactor` | what timers need, started in time |

mod builder;
mod client;
mod connection;
mod dial;
mod disk;
mod failure;
#[cfg(feature = "smol")]
mod on_smol;
mod peers;
mod reactor;
mod runtime;
#[cfg(all(test, feature = "tls"))]
mod several_servers;
#[cfg(unix)]
mod socket;
mod sync;
mod tasks;
#[cfg(feature = "tls")]
mod tls;
mod token_file;
mod transport;
mod workers;

pub use builder::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_BODY, TransportBuilder};
#[cfg(feature = "smol")]
pub use on_smol::SmolTransport;
pub use token_file::{token_file, token_source_from_env};
// What users use: the root of the core.
pub use semaphore_core::{
    Availability, Behavior, BuildError, Builder, Client, Conflict, Discovery, Election, Error,
    FencingToken, Follower, InvalidInput, Leader, LeaderEvent, LeaderStatus, Leadership, LockKey,
    Lost, Permit, Prefix, Refusal, RequestError, Scope, Semaphore, Sequencer, SequencerStatus,
    SessionId, Token, TokenSource, blocking, error, lost, manage, observe, terms,
};
pub use transport::UreqTransport;
pub use ureq;
