//! What the prefix contains: the record, and how old views of it are handled.

mod conflicts;
mod dead_poll;
mod evict;
mod manage;
mod restored_snapshot;
mod stale_views;
