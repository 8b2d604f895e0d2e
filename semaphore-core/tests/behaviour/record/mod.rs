//! What the prefix shows: the record, and views of it that are old.

mod conflicts;
mod dead_poll;
mod evict;
mod manage;
mod restored_snapshot;
mod stale_views;
