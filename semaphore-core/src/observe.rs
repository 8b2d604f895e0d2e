//! Looking on: what happens to a semaphore or an election, as it is known here.
//!
//! An [`Observer`] is told of it: give one to [`Builder::observer`](crate::Builder::observer). The log is another one, which is
//! always there: `docs/LOGS.md` says which line means what. A [`Status`] tells how it stands at the moment.

#[cfg(feature = "metrics")]
pub use crate::handle::Metrics;
pub use crate::handle::{Exchange, Observer};
pub use crate::machine::{FirstWaiter, Notice, Status, Trouble};
pub use crate::subject::Subject;
