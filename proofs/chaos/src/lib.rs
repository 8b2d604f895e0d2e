//! Chaos on a real cluster: what clients believed while everything was disturbed, and a checker for
//! it.
//!
//! ```text
//!  scripts/chaos ─► run ─┬─ Cluster: three servers ◄──────────── nemesis: kill, stop, restart
//!                        ├─ fleet: client processes ─► proxies ◄ nemesis: cut, silence; kill, stop
//!                        │  (they contend, or follow)
//!                        ├─ lockers: `consul lock` ─► hold
//!                        ├─ ushers: who stands in the queues
//!                        └─ witness: what the cluster says
//!                               │
//!                               ▼ one JSON object per line, on one clock
//!                          the folder of logs ─► check ─► Report: figures, violations
//! ```
//! Each party records what it believes or does, and none of them judges. [`check`] reads the logs,
//! also those of earlier runs, and does not know where they come from. So tests can give it wrong
//! logs. The crate `judge` judges what the simulator judges as well.
//!
//! They contend for places: a semaphore with some slots, or an election, which has one. A belief is
//! judged by the limit of its place.
//!
//! In half of the runs dead servers stay in the catalog, and `consul lock` contends everywhere. In
//! the others Consul removes dead servers, as it does by default. That ends the sessions of clients
//! that know no other server and still believe that they hold. Then nobody may have their places
//! until their leases are over.
//!
//! Now and then two of the three servers stand still. They do so for longer than a client waits,
//! and for at most as long as an agent holds requests. A write that its client gives up meanwhile
//! is applied when there is a leader again; the proxies see it.
//!
//! The seed draws the release of Consul, and whether agents ask for tokens. Then the nemesis also
//! takes permissions and tokens from contenders, and gives them back.
//!
//! A belief begins just before a holder asked and was told that it holds. It ends just before the
//! holder gives back, when it was last told so, or at the end of its lease. A process that was
//! paused must ask before it acts.

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
mod tokens;
mod usher;
mod witness;

pub use diary::Line;
pub use moment::Moment;
