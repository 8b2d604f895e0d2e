//! Sessions: how they are created, renewed and ended, and how long they may be believed in.

pub(in crate::machine) mod departure;
pub(in crate::machine) mod lease;
pub(in crate::machine) mod loan;
pub(in crate::machine) mod orphans;
pub(in crate::machine) mod past;
pub(in crate::machine) mod settings;
pub(in crate::machine) mod tenant;
