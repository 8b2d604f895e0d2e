//! Who stands in the queue of a semaphore.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// One state of a semaphore's prefix, read at once. The read began at the line's moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The semaphore.
    pub prefix: String,
    /// When the answer arrived.
    pub end: Moment,
    /// The index of the answer. While it is the same, nothing has changed.
    pub index: u64,
    /// The index of the last write of the record.
    pub written: u64,
    /// The limit.
    pub limit: u32,
    /// The sessions that hold.
    pub holders: Vec<String>,
    /// How many of them have no contender key: their sessions have ended.
    pub dead: u32,
    /// The sessions that wait, each with the index of its key's creation.
    pub waiting: Vec<(String, u64)>,
}
