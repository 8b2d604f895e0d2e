//! What the example programs share.
//!
//! ```text
//!  contend
//!     │ contender     one contender: acquire, hold, release, told to an Observer
//!     │ crew          many of them at once, until they are done or late
//!     │ fleet         many semaphores at once, and who waits behind them; fleet_report says it
//!     ├ backend       tokio, threads or smol: a Host is a machine with separate connections
//!     │   ├ meter     requests and bytes, counted on their way
//!     │   └ place     who is next in Consul's queue, seen on the same way
//!     ├ agent         which Consul: the one in memory, or the one at CONSUL_HTTP_ADDR
//!     ├ alarm         holds that last as long as they should
//!     ├ gauge         who believed to hold when, and how many at once
//!     ├ fairness      how many were served out of turn
//!     └ percentile, peaks, bare, holds, wall, report, say, failure
//! ```
//! `leader`, `discover` and `resource` elect a leader, follow it, and refuse former leaders.
//!
//! The short programs (`on_tokio`, `on_smol`, `on_threads`, `by_hand`, `testing`) only use
//! [`agent`], so they show all the code that a user writes.

pub mod agent;
pub mod alarm;
pub mod backend;
pub mod bare;
pub mod contender;
pub mod contest;
pub mod crew;
pub mod failure;
pub mod fairness;
pub mod flags;
pub mod fleet;
pub mod fleet_report;
pub mod gauge;
pub mod holds;
pub mod meter;
pub mod peaks;
pub mod percentile;
pub mod place;
pub mod report;
pub mod say;
pub mod shards;
pub mod wall;
