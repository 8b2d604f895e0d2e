//! The protocol of `docs/PROTOCOL.md` as a model, and an explorer of it. The README beside this crate says what is modelled and what
//! is not.
#![expect(
    clippy::cast_possible_truncation,
    reason = "sessions, contenders and callers have numbers of one digit, states of a scene fit into u32"
)]
#![expect(
    clippy::struct_excessive_bools,
    reason = "states are compared and hashed by the million: each mark is a field"
)]

mod action;
mod canonical;
mod compose;
mod consul;
mod defects;
mod explore;
mod foreign;
mod graph;
mod initial;
mod judge;
mod known;
mod learn;
mod reads;
mod rules;
mod scene;
mod scenes;
mod state;
mod step;
mod story;
mod walk;

pub use defects::{Preset, all as presets};
pub use explore::{Report, explore};
pub use scene::Scene;
pub use scenes::all as scenes;
pub use story::tell;
pub use walk::{Counts, End, walk};
