//! The state of a semaphore or an election in this process, as it is known without a request.

use core::time::Duration;

use crate::error::RequestError;

/// The state of a semaphore or an election in this process, or of a whole
/// [`Client`](crate::Client). It sends nothing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// How many permits are held here with a valid lease. For an election, 1 while it leads here. For
    /// a client, the sum of both.
    pub held: u32,
    /// How many acquisitions or campaigns wait here.
    pub waiting: usize,
    /// The first waiter here. For a client, the one that has waited longest.
    pub first_waiter: Option<FirstWaiter>,
    /// What Consul does not serve at the moment. `None` if it served all of the last requests.
    /// It is the trouble of the whole client, if the semaphore belongs to one. While nobody waits or
    /// holds, nothing is requested, and a trouble is over after a minute and a half. A machine that
    /// is driven by hand does not know it.
    pub trouble: Option<Trouble>,
    /// How long ago a lease began or was extended. `None` before the first grant.
    pub renewed: Option<Duration>,
}

impl Status {
    /// The state of both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let first_waiters = self.first_waiter.into_iter().chain(other.first_waiter);
        Self {
            held: self.held.saturating_add(other.held),
            waiting: self.waiting + other.waiting,
            first_waiter: first_waiters.max_by_key(|it| it.waited),
            trouble: self.trouble.or(other.trouble),
            renewed: self.renewed.into_iter().chain(other.renewed).min(),
        }
    }

    /// Whether Consul has served all of the last requests.
    pub fn is_connected(&self) -> bool {
        self.trouble.is_none()
    }
}

/// The first waiter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirstWaiter {
    /// How long it has waited.
    pub waited: Duration,
    /// How many of other processes wait ahead of it, by Consul's last answer. `None` if that is
    /// unknown.
    pub ahead: Option<u32>,
}

/// What Consul does not serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trouble {
    /// For how long.
    pub lasts: Duration,
    /// Why the last request failed.
    pub cause: RequestError,
}
