//! Who is next: the order of those who wait, with strangers among them, and the dead taken out.

pub(crate) mod foreign_clients;
mod order;
mod pruning;
