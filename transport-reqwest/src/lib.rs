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
//! [`ReqwestTransport`] sends the requests and runs the tasks: it is the [`Transport`] and the [`Runtime`] of the core.
//! The crate re-exports what you need of `semaphore-core`.
//!
//! # What to do on loss
//! A permit is lost when Consul is silent for longer than the lease, or when its session is ended early. Stop the work:
//! [`Semaphore::with_permit`] drops it, [`Permit::lost`] resolves, [`Permit::is_held`] says so before each step, and [`Permit::lost_signal`] tells
//! spawned work. A resource that refuses old fencing tokens is safe from the pause between check and step.
//!
//! # In tests
//! Under tokio's paused time no answer of a real agent comes: tokio leaps to the end of each timeout while it waits for a socket.
//! The clock leaps along, so that leases end as they are to, and an error in the log says so. Such a test is for
//! `transport_mock::MockConsul::on_tokio`; one with a real agent has tokio's time as it is.
//!
//! # The clock
//! Leases end by a clock that goes on while the machine is suspended: the crate `boot-time` reads `CLOCK_BOOTTIME` on Linux,
//! `mach_continuous_time` on macOS and the performance counter on Windows. On FreeBSD, and in a virtual machine that is paused, it
//! may stand still: `docs/CLOCKS.md` in the repository says what follows from that.
//!
//! # Features
//! `tls` (default): `https://` agents, through rustls with ring, by HTTP/2 where they offer it. Without it such an address is
//! [`BuildError::TlsNotBuilt`].
//!
//! `cancellation-token`: `ReqwestTransport::cancellation_token`, for code that takes a token of tokio-util.
//!
//! # Where to go next
//! The README of the repository has the other ways to acquire, many semaphores, elections, shutdown and tests. `docs/guides` there
//! has guides with code: TTL, loss, fencing, ACLs. [`Semaphore`], [`Permit`], [`Election`] and [`Builder`] are the pages to read here.
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

pub use builder::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_BODY, TransportBuilder, token_from_env};
pub use reqwest;
pub use runtime::NoRuntime;
pub use token_file::{token_file, token_source_from_env};
#[cfg(feature = "cancellation-token")]
pub use tokio_util::sync::CancellationToken;
// What users use: the root of the core.
pub use semaphore_core::{
    Availability, Behavior, BuildError, Builder, Client, Conflict, Discovery, Election, Encoding,
    Error, FencingToken, Follower, InvalidInput, Leader, LeaderEvent, LeaderStatus, Leadership,
    LockKey, Lost, Permit, Prefix, Refusal, RequestError, Scope, Semaphore, Sequencer,
    SequencerStatus, SessionId, Token, TokenSource, blocking, error, lost, manage, observe,
    recording, terms,
};
pub use transport::ReqwestTransport;
