//! The handles: [`Semaphore`] and [`Permit`], [`Election`] and [`Leadership`], [`Discovery`] and
//! [`Follower`], async here and blocking in [`blocking`].
//!
//! A semaphore is one participant, and an election is one candidate. The runtime drives it in the
//! background, and clones share it. Those of a [`Client`] share their driver and sessions. Commands
//! go straight to the machine, under a lock that is never held across an `await`. Events come back
//! through channels.
//!
//! A follower runs while a user awaits it. Alone it needs no driver. The driver of a [`Client`] sends
//! the requests of all its followers.

mod authorized;
pub mod blocking;
mod builder;
mod client;
mod discovery;
mod election;
mod exchange;
mod followed;
mod follower;
mod hold;
mod hub;
mod leadership;
mod log;
mod lost_signal;
#[cfg(feature = "metrics")]
mod metrics;
mod observer;
mod owner;
mod permit;
mod presence;
mod semaphore;
mod shared;
mod terms;
mod under_way;
mod with_permit;

pub use builder::Builder;
pub use client::Client;
pub use discovery::Discovery;
pub use election::Election;
pub use exchange::Exchange;
pub use follower::Follower;
pub use leadership::Leadership;
pub use lost_signal::LostSignal;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use observer::Observer;
pub use permit::Permit;
pub use semaphore::Semaphore;
pub use terms::{TermLimit, Terms};

pub(crate) use exchange::kind_of;
pub(crate) use hub::{Arrivals, Hub, Reply, SharedMachine};
pub(crate) use observer::{Audience, Observers};
