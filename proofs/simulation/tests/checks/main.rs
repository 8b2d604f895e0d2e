//! Each check fires on a history that its invariant forbids, and not on the one next to it.

mod election;
mod semaphore;
mod shared;
mod support;
