//! What the prefix contains: the record, and how old views of it are handled.

mod atomic_steps;
mod conflicts;
mod dead_poll;
mod evict;
mod lost_state;
mod manage;
mod restored_snapshot;
mod stale_views;
mod transaction_sizes;
