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
//! [`UreqTransport`] sends the requests and runs the tasks: it implements the core's [`Transport`]
//! and [`Runtime`]. On smol, use `SmolTransport`, and `Semaphore` in place of
//! `blocking::Semaphore`. The crate re-exports what you need of `semaphore-core`.
//!
//! # What to do on loss
//! A permit is lost when Consul is silent for longer than the lease, or when its session is ended
//! early. Then stop the work: ask [`is_held`](blocking::Permit::is_held) before each step, or give
//! [`lost_signal`](blocking::Permit::lost_signal) to other threads. Between a check and the next
//! step the program may pause; only a resource that refuses old fencing tokens is safe from that.
//!
//! # Logs
//! ureq logs through the crate `log`. At TRACE it writes the bytes of a request, but never the
//! token: ureq doesn't get it.
//!
//! # Features
//! - `tls` (default): `https://` agents, through rustls with ring. Without this feature an
//!   `https://` address is [`BuildError::TlsNotBuilt`].
//! - `smol`: `SmolTransport`, for programs that run on smol.
//!
//! # The clock
//! Leases end by a clock that runs while the machine is suspended. The crate `boot-time` reads
//! `CLOCK_BOOTTIME` on Linux, `mach_continuous_time` on macOS and the performance counter on
//! Windows. On FreeBSD, and in a paused virtual machine, the clock may stand still: see
//! `docs/CLOCKS.md` in the repository.
//!
//! # Where to go next
//! The repository's README shows other ways to acquire, many semaphores, elections, shutdown and
//! tests. Its `docs/guides` have code for TTL, loss, fencing and ACLs. Here, start with
//! [`blocking`] and [`Builder`].
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

pub use builder::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_BODY, TransportBuilder, token_from_env};
#[cfg(feature = "smol")]
pub use on_smol::SmolTransport;
pub use token_file::{token_file, token_source_from_env};
// What users use: the root of the core.
pub use semaphore_core::{
    Availability, Behavior, BuildError, Builder, Client, Conflict, Discovery, Election, Encoding,
    Error, FencingToken, Follower, InvalidInput, Leader, LeaderEvent, LeaderStatus, Leadership,
    LockKey, Lost, Permit, Prefix, Refusal, RequestError, Scope, Semaphore, Sequencer,
    SequencerStatus, SessionId, Token, TokenSource, blocking, error, lost, manage, observe,
    recording, terms,
};
pub use transport::UreqTransport;
pub use ureq;
