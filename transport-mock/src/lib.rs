//! A Consul in memory, for deterministic tests of code that uses the semaphore: no server, no
//! waiting, and faults on demand.
//!
//! ```
//! use transport_mock::{Error, Lost, MockConsul, Semaphore};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Error> {
//! // In a `#[tokio::test(start_paused = true)]`: an hour takes milliseconds.
//! let world = MockConsul::on_tokio(7); // a seed: the same run every time
//! let semaphore = Semaphore::builder("service/db", 1).value("a").connect(world.client("node-1"))?;
//! let permit = semaphore.acquire().await?;
//! assert_eq!(world.holders("service/db"), ["a"]);
//!
//! world.partition("node-1"); // from now on silence
//! assert!(matches!(permit.lost().await, Lost::LeaseExpired { .. }));
//! # Ok(())
//! # }
//! ```
//! The crate re-exports the parts of `semaphore-core` that a test needs, so one dependency is enough.
//!
//! [`MockConsul`] is a simulated world. Its hosts, [`MockConsul::client`], implement the traits
//! of the core ([`Transport`], [`Runtime`], [`BlockOn`]), so all code on these traits runs
//! here, on virtual time: when everything waits, the clock jumps to the next event.
//!
//! ```
//! use std::time::Duration;
//!
//! use transport_mock::adapter::{Method, Request, Transport, TransportErrorKind};
//! use transport_mock::{Fault, MockConsul, RequestKind, Rule};
//!
//! let world = MockConsul::new(7);
//! let node = world.client("node-1");
//! let write = || Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
//!
//! // The answer to the next write is lost: its client can't know that it was applied.
//! world.inject(Rule::new(Fault::LoseAnswer).kind(RequestKind::KvPut));
//! let lost = world.run(node.send(write())).expect_err("no answer");
//! assert_eq!(lost.kind(), TransportErrorKind::Timeout);
//! assert!(world.consul(|consul, _| consul.entry("greeting").is_some()));
//!
//! // Ten seconds of waiting took no time, and are over.
//! assert_eq!(world.now().since_origin(), Duration::from_secs(10));
//! assert!(world.trace().contains("node-1 #1 ! answer lost"));
//! assert_eq!(world.run(node.send(write()))?.status(), 200);
//! # Ok::<(), transport_mock::adapter::TransportError>(())
//! ```
//!
//! # In a test on tokio
//! `MockConsul::on_tokio(seed)` (feature `tokio`, on by default) makes a world with tokio's time. A
//! `#[tokio::test(start_paused = true)]` needs nothing else: the code under test awaits, sleeps and spawns as in production, with the
//! same handles, and an hour takes milliseconds. `examples/src/bin/service` in the repository is a service with such tests.
//!
//! | in a test on | make the world with | time moves |
//! |---|---|---|
//! | tokio | `MockConsul::on_tokio(seed)` | with `tokio::time`, paused or not |
//! | plain threads, with the blocking handles | [`MockConsul::new`], and [`MockConsul::spawn_thread`] | when all of them wait |
//! | nothing: futures that sleep with [`Runtime`] | [`MockConsul::new`], and [`MockConsul::run`] | when everything waits |
//! | smol, or another executor | `LoopbackConsul`, or one of the above: smol's clock can't be paused | with the real clock |
//!
//! Any other choice fails, and the error says what to do instead:
//!
//! | a test with | what happens |
//! |---|---|
//! | a world of [`MockConsul::new`] on tokio, or [`MockConsul::run`] inside a runtime | it panics at once |
//! | [`MockConsul::run`] with code that needs tokio's timers or sockets | it panics at once, as tokio does |
//! | `MockConsul::on_tokio` outside of a runtime, or [`MockConsul::run`] or [`MockConsul::advance`] of its world | it panics at once |
//! | a blocking handle of a world on tokio whose time is paused | it panics at once: tokio's time does not wait for threads |
//! | a world of [`MockConsul::new`] on smol or another executor, which does not move its time | after 5 s of real time the advice is on standard error, and after two minutes its handles and requests panic with it |
//! | a real agent, or a `LoopbackConsul`, under tokio's paused time | `transport-reqwest` logs an error: tokio's time jumps before an answer arrives |
//! | two clocks, [`MockConsul::advance`] beside tokio's timers | it works, after [`MockConsul::set_automatic_time`]`(false)` |
//!
//! One mistake is not detected: a world on tokio hangs while the only thread of its runtime waits in another way, such as the
//! `block_on` of another executor. If a thread of [`MockConsul::spawn_thread`] does so, time stops, and after 30 s the others panic.
//!
//! # What moves time
//! - [`MockConsul::run`], and a client's `block_on`, run a future to its end; time moves when everything waits.
//! - [`MockConsul::advance`] moves time by a duration, and runs everything that is due in it. With
//!   [`MockConsul::set_automatic_time`] off, nothing else moves time.
//! - Start blocking threads with [`MockConsul::spawn_thread`]: time moves only when all of them
//!   are asleep.
//!
//! With one thread, the seed decides everything: two runs have the same [`MockConsul::trace`],
//! byte for byte. With several threads, the operating system decides which acts first at one instant.
//!
//! # Faults
//! - One exchange: a [`Fault`], aimed by a [`Rule`] or drawn from the seed at the rates of
//!   [`Faults`].
//! - A process: [`MockProcess::pause`], [`MockProcess::kill`], and a clock that runs fast or slow,
//!   [`MockClient::with_clock_rate`].
//! - A host: [`MockConsul::partition`], [`MockConsul::stall`] and [`MockConsul::lag`].
//! - The cluster: [`MockConsul::lose_leader`].
//! - A host's server: [`MockConsul::set_agent`] gives it a separate node, and
//!   [`MockConsul::deregister_node`] removes that node with all its sessions.
//! - The agents' limits: [`MockConsul::set_max_connections`], and [`MockConsul::set_request_limits`] from 1.15 on.
//! - An operator's actions: [`MockConsul::consul`] gives access to the [`consul::Consul`] itself, which can
//!   destroy sessions, fail checks, restore snapshots and change ACLs.
//!
//! # Which Consul
//! The default is 1.8, Community. [`MockConsul::with_profile`] makes another release or edition; [`consul::Profile`] lists them.
//!
//! # Other clients
//! `LoopbackConsul` (feature `loopback`, on by default) serves a world with all its faults over
//! HTTP on the real clock: for adapters, `curl` and the `consul` command. `MockConsul::serve`
//! serves a world [on tokio](#in-a-test-on-tokio). The program `consul-in-memory` (feature
//! `server`) is for clients of any language:
//! `cargo run -p transport-mock --bin consul-in-memory -- --help`.
//!
//! # Not for use
//! The feature `unstable-proofs` is for the proofs of this repository: they drive the Consul without a world, in single steps, and
//! see each write. It is no part of the interface, and may change at any time.
//!
//! [`Transport`]: semaphore_core::adapter::Transport
//! [`Runtime`]: semaphore_core::adapter::Runtime
//! [`BlockOn`]: semaphore_core::adapter::BlockOn

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "unstable-proofs"),
    allow(
        dead_code,
        unreachable_pub,
        reason = "public and used with the feature"
    )
)]

//  mock ── the test's handle          client ── a host's handle: the traits of the core
//     └───────────────┬───────────────────┘
//                   world ── lock, sleeping, waiting for answers
//          ┌──────────┴──────────┐
//      executor               network ── exchanges, outages ◀── fault     server ── a world over HTTP
//      who runs next             ├── timeline: what is due when
//                                ├── trace, stats: what happened
//                                └── consul: the agent, itself without I/O

mod client;
pub mod consul;
mod executor;
mod fault;
mod kind;
mod mock;
mod network;
mod pooled;
mod process;
mod seeds;
#[cfg(feature = "loopback")]
mod server;
mod stats;
mod task;
mod time;
mod timeline;
#[cfg(feature = "tokio")]
mod tokio_time;
mod trace;
mod watchdog;
mod words;
mod world;

pub use client::MockClient;
pub use fault::{Fault, Faults, Rule};
pub use kind::RequestKind;
pub use mock::{MockConsul, TimeHold};
#[cfg(feature = "unstable-proofs")]
pub use network::Delivered;
#[cfg(feature = "unstable-proofs")]
pub use pooled::PooledClient;
pub use process::MockProcess;
pub use seeds::Seeds;
#[cfg(feature = "loopback")]
pub use server::{InvalidOrder, LoopbackConsul};
pub use stats::Stats;
pub use task::Task;
// What users use: the root of the core, and what a test names of requests and clocks.
pub use semaphore_core::{
    Availability, Behavior, BuildError, Builder, Client, Conflict, Discovery, Election, Error,
    FencingToken, Follower, InvalidInput, Leader, LeaderEvent, LeaderStatus, Leadership, LockKey,
    Lost, Permit, Prefix, Refusal, RequestError, Scope, Semaphore, Sequencer, SequencerStatus,
    SessionId, Token, TokenSource, adapter, blocking, manage, terms,
};
