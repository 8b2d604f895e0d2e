//! What a session is to its users: its settings, its lease, how it is lent, and what may be left of it.

pub(in crate::machine) mod lease;
pub(in crate::machine) mod loan;
pub(in crate::machine) mod orphans;
pub(in crate::machine) mod past;
pub(in crate::machine) mod settings;
pub(in crate::machine) mod tenant;
