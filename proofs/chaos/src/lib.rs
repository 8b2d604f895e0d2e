//! Chaos on a real cluster: what clients believed while everything was hurt, and a checker of it.
//!
//! ```text
//!  scripts/chaos ─► run ─┬─ Cluster: three servers ◄──────────── nemesis: kill, stop, restart
//!                        ├─ fleet: client processes ─► proxies ◄ nemesis: cut, silence; kill, stop
//!                        │  (they contend, or follow)
//!                        ├─ lockers: `consul lock` ─► hold
//!                        └─ witness: what the cluster says
//!                               │
//!                               ▼ one JSON object per line, on one clock
//!                          the folder of logs ─► check ─► Report: figures, violations
//! ```
//! Each party writes down what it believes or does, and none of them judges. [`check`] reads the
//! logs, also those of an earlier run, and knows nothing of how they came about, so that it can be
//! shown logs that are wrong. What the simulator judges as well is judged by the crate `judge`, for both.
//!
//! What they contend for is a place: a semaphore of some slots, or an election, which has one. A
//! belief is judged by its place's limit, whichever of the two it is.
//!
//! In half of the runs dead servers stay in the catalog, and `consul lock` contends everywhere. In the others
//! Consul takes them out, as it does by default, and with them ends the sessions of clients that know no other
//! server and believe on: then nobody may have their places until they can't any more.
//!
//! Now and then two servers of three stand still, for longer than a client waits and up to as long as an agent holds what it
//! is asked. A write that its client gives up meanwhile is applied when there is a leader again; the proxies see it.
//!
//! A belief counts from the moment before a holder asked and was told that it holds, to the
//! moment before it gives back, to the last moment at which it was told so, or to the end of its
//! lease: a process that was paused must ask before it acts.

pub mod check;
pub mod client;
pub mod defect;
mod diary;
pub mod failure;
mod fleet;
pub mod lockers;
mod moment;
mod nemesis;
pub mod record;
pub mod run;
mod witness;

pub use diary::Line;
pub use moment::Moment;
