//! What a user holds: [`Semaphore`] and [`Permit`], async here and blocking in [`blocking`].
//!
//! A semaphore is one participant, driven in the background by its runtime; its clones share it.
//! Commands go straight into the machine, under a lock that is never held across an `await`; events
//! come back through channels.

pub mod blocking;
mod builder;
mod hold;
mod owner;
mod permit;
mod semaphore;
mod shared;

pub use builder::Builder;
pub use permit::Permit;
pub use semaphore::Semaphore;

pub(crate) use shared::Shared;
