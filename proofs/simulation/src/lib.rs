//! Runs semaphores and elections through everything that can go wrong, on virtual time, and judges
//! every step.
//!
//! ```text
//!  seed ──▶ plan ── what will be done to a world, as a value
//!             │
//!            run ── the world: users on hosts, strangers, deeds, faults
//!             │        what happened after each step, and who believes what
//!           check ── one invariant each: S1 to S5, L1 to L4
//!             │        what chaos can see as well is told to the judge that both share: the crate judge
//!             │
//!         branches ── how often each rare branch of the core was taken
//!             │
//!    figures, or a violation ──▶ shrink ── the shortest plan that shows it, and its story
//! ```
//! Semaphores and elections run as users have them, with handles and driver. Consul, the network,
//! the clocks, the processes and the people are simulated. A seed decides a run to the byte.

pub mod branches;
pub mod check;
mod figures;
pub mod history;
pub mod plan;
mod run;
mod shrink;

pub use figures::Figures;
pub use run::{Outcome, run};
pub use shrink::{Shrunk, shrink};
