//! How a semaphore or an election stands in this process, as it is known without asking.

use core::time::Duration;

use crate::error::RequestError;

/// How a semaphore or an election stands in this process. Nothing is sent for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// How many permits are held here, by leases that hold; of an election 1 while it is led here.
    pub held: u32,
    /// How many acquisitions or campaigns wait here.
    pub waiting: usize,
    /// The first of those who wait here.
    pub first_waiter: Option<FirstWaiter>,
    /// What Consul does not serve at the moment; none while it serves all that was asked of it last. Nothing is asked while
    /// nobody waits or holds.
    pub trouble: Option<Trouble>,
    /// How long ago a lease began or became longer; none before the first grant.
    pub renewed: Option<Duration>,
}

impl Status {
    /// Whether Consul has served all that was asked of it last.
    pub fn is_connected(&self) -> bool {
        self.trouble.is_none()
    }
}

/// The first of those who wait here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirstWaiter {
    /// How long it has waited.
    pub waited: Duration,
    /// How many of other processes wait ahead of it, as Consul said last. None where that is not known.
    pub ahead: Option<u32>,
}

/// What Consul does not serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trouble {
    /// For how long it has not.
    pub lasts: Duration,
    /// Why the last request failed.
    pub cause: RequestError,
}
