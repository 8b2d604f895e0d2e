//! Who is next: the order of the waiters, foreign clients among them, and the removal of dead
//! holders.

mod crowd;
pub(crate) mod crowd_members;
mod crowd_strangers;
pub(crate) mod foreign_clients;
mod order;
mod pruning;
