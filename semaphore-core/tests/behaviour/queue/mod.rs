//! Who is next: the order of the waiters, foreign clients among them, and the removal of dead
//! holders.

pub(crate) mod foreign_clients;
mod order;
mod pruning;
