//! How many slots are free, as far as is known.

use core::time::Duration;

/// How many slots of a semaphore were free at Consul's last answer.
///
/// It is for people, metrics and estimates. A slot that was free may be taken by now, or belong to
/// a waiter. Only `try_acquire` tells whether you can have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The slots without a holder. A dead holder's slot counts as held until somebody has removed
    /// it.
    pub permits: u32,
    /// All slots according to the record, or according to the settings if there is no record yet.
    pub limit: u32,
    /// The age of Consul's answer.
    pub age: Duration,
}
