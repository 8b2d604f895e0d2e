//! The local callers of a machine.

pub(super) mod queue;
