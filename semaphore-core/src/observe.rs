//! What happens to a semaphore or an election, as far as this process knows.
//!
//! An [`Observer`] is told: give one to [`Builder::observer`](crate::Builder::observer). The log is
//! an observer that is always there: `docs/LOGS.md` explains its lines. A [`Status`] is the present
//! state.

#[cfg(feature = "metrics")]
pub use crate::handle::Metrics;
pub use crate::handle::{Exchange, Observer};
pub use crate::machine::{FirstWaiter, Notice, Status, Trouble};
pub use crate::subject::Subject;
