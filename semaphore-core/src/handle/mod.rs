//! What a user holds: [`Semaphore`] and [`Permit`], [`Discovery`] and [`Follower`], async here and
//! blocking in [`blocking`].
//!
//! A semaphore is one participant, driven in the background by its runtime; its clones share it.
//! Commands go straight into the machine, under a lock that is never held across an `await`; events
//! come back through channels.
//!
//! A follower needs no driver: its machine runs inside of what its user awaits.

pub mod blocking;
mod builder;
mod discovery;
mod follower;
mod permit;
mod semaphore;
mod shared;

pub use builder::Builder;
pub use discovery::Discovery;
pub use follower::Follower;
pub use permit::Permit;
pub use semaphore::Semaphore;

pub(crate) use shared::Shared;
