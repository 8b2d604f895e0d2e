//! Each check fires on a history that its invariant forbids, and not on a similar one that it
//! allows.

mod election;
mod liveness;
mod semaphore;
mod shared;
mod support;
