//! The scenes of docs/SCENARIOS.md, one file per group.

mod bench;
mod changed;
mod groups;
mod holding;
mod late;
mod requests;
mod woken;
