//! The semaphore on tokio, with reqwest.
//!
//! ```no_run
//! use transport_reqwest::{ReqwestTransport, Semaphore};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let transport = ReqwestTransport::new("http://127.0.0.1:8500")?;
//! let semaphore = Semaphore::builder("service/db", 3).value("node-1").connect(transport)?;
//! let permit = semaphore.acquire().await?;
//! println!("one of three, with token {}", permit.fencing_token());
//! permit.release().await?; // or drop it
//! semaphore.shutdown().await;
//! # Ok(())
//! # }
//! ```
//! [`ReqwestTransport`] sends the requests and runs the tasks: it is the core's [`Transport`] and [`Runtime`].
//! The crate re-exports the parts of `semaphore-core` that you need.
//!
//! # What to do on loss
//! A permit is lost if Consul is silent for longer than the lease, or if its session ends early. Then stop the work.
//! [`Semaphore::with_permit`] drops it, and [`Permit::lost`] resolves. Ask [`Permit::is_held`] before each step, and give
//! [`Permit::lost_signal`] to spawned work. Only a resource that refuses old fencing tokens is safe from a pause between check and step.
//!
//! # In tests
//! Don't pause tokio's time in a test with a real agent. No answer would arrive, since tokio jumps to the end of each timeout while
//! it waits for a socket. Leases end with tokio's time then, and an error in the log says so. For paused time use
//! `transport_mock::MockConsul::on_tokio`.
//!
//! # The clock
//! Leases end by a clock that keeps running while the machine is suspended. The crate `boot-time` reads `CLOCK_BOOTTIME` on Linux,
//! `mach_continuous_time` on macOS and the performance counter on Windows. On FreeBSD, and in a paused virtual machine, the clock may
//! stop: `docs/CLOCKS.md` in the repository says what to do then.
//!
//! # Features
//! - `tls` (default): `https://` agents, with rustls and ring, by HTTP/2 if they offer it. Without this feature such an address is
//!   [`BuildError::TlsNotBuilt`].
//! - `cancellation-token`: `ReqwestTransport::cancellation_token`, for code that takes tokio-util's `CancellationToken`.
//! - `metrics`: `observe::Metrics`, figures for the facade `metrics`.
//! - `serialize`: what `inspect` returns can be serialized by serde.
//!
//! # Where to go next
//! Read [`Semaphore`], [`Permit`], [`Election`] and [`Builder`] here. The repository's README has other ways to acquire, many
//! semaphores, elections, shutdown and tests. Its `docs/guides` has guides with code: TTL, loss, fencing, ACLs.
//!
//! [`Transport`]: semaphore_core::adapter::Transport
//! [`Runtime`]: semaphore_core::adapter::Runtime

#![cfg_attr(docsrs, feature(doc_cfg))]

// | file | says |
// |---|---|
// | `builder` | which options there are |
// | `transport` | the handle |
// | `wire` | one request and its answer |
// | `clients` | by which connection a request goes: its own, or one that is shared |
// | `recipe` | how a client is made |
// | `clock` | what time it is, also where tokio's was moved |
// | `route` | which server it goes to |
// | `failure` | what is known of a request that failed |
// | `tls` | whom to trust, and who we are |
// | `unverified` | TLS that accepts any certificate |
// | `disk` | the system's files |
// | `cancellation` | the end of a permit as a `CancellationToken` |
// | `runtime` | clock, timer and tasks of tokio |
// | `life` | whether that runtime has ended, or can't do it |
// | `farewell` | what is done when that runtime has gone |

mod builder;
#[cfg(feature = "cancellation-token")]
mod cancellation;
mod clients;
mod clock;
mod disk;
mod failure;
mod farewell;
mod life;
mod recipe;
mod route;
mod runtime;
#[cfg(all(test, feature = "tls"))]
mod several_servers;
#[cfg(feature = "tls")]
mod tls;
mod token_file;
mod transport;
#[cfg(feature = "tls")]
mod unverified;
mod wire;

pub use builder::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_BODY, TransportBuilder};
pub use reqwest;
pub use runtime::NoRuntime;
pub use token_file::{token_file, token_source_from_env};
#[cfg(feature = "cancellation-token")]
pub use tokio_util::sync::CancellationToken;
// What users use: the root of the core.
pub use semaphore_core::{
    Availability, Behavior, BuildError, Builder, Client, Conflict, Discovery, Election, Error,
    FencingToken, Follower, InvalidInput, Leader, LeaderEvent, LeaderStatus, Leadership, LockKey,
    Lost, Permit, Prefix, Refusal, RequestError, Scope, Semaphore, Sequencer, SequencerStatus,
    SessionId, Token, TokenSource, blocking, error, lost, manage, observe, terms,
};
pub use transport::ReqwestTransport;
