//! Repeated reads: from which index, how often, and when after a failure.

pub(in crate::machine) mod backoff;
pub(in crate::machine) mod budget;
pub(in crate::machine) mod check;
pub(in crate::machine) mod checks;
pub(in crate::machine) mod cursor;
pub(in crate::machine) mod pause;
pub(in crate::machine) mod poller;

pub(crate) use backoff::{Backoff, jitter};
pub(crate) use budget::{Budget, READ_BURST, READ_INTERVAL};
