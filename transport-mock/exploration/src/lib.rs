//! Every run of small scenes.
pub mod scene;
mod action;
mod canon;
mod clock;
mod search;
mod story;
mod violation;
mod world;
pub use scene::{Arrivals, Fault, Furniture, Messages, Scene};
pub use search::{Bounds, Outcome, Report, explore};
pub use violation::Violation;
