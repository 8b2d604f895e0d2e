//! How many connections a transport opens, and what goes first when that is not enough.
//!
//! An agent allows an address 200 connections at once (`limits.http_max_conns_per_client`), counts those that
//! are kept open between requests, and goes on counting a blocking query that was given up until its wait is over.
//! It refuses further ones, also those that renewals need. So one transport opens [`MOST`] at most, whatever is
//! sent through it:
//!
//! ```text
//!                  ┌─ Lane::Short(0) … ──▶ one connection each, kept open for what comes next
//!   by priority ───┤
//!                  └─ Lane::Poll(0) … ───▶ one blocking query each; one that finds none is parked:
//!                                          it reads every few seconds, by a short lane
//! ```
//! - Over HTTP/2 a lane is a stream. All short lanes share one connection, so that no renewal waits behind the answer to a
//!   poll, and polls share others: there are up to [`MOST_POLLS`](places::MOST_POLLS), whatever the number of connections.
//! - There are 60 lanes where there may be 64 connections: some may still be being closed. Polls have half of the lanes. Of the other half some are left to what is [urgent](crate::sans_io::Priority::Urgent).
//! - A connection of a short lane is never lent to a poll.
//! - A poll that is given up keeps its lane until its wait would be over.
//! - A short request that is given up leaves its lane, yet an agent without a leader holds it for up to 18 s more, and counts it.
//!   So there are no more than 60 such; what comes then waits, and renewals from 100 on.
//! - A short request that has no lane a second before its time is over is not sent: it would be given up under way.
//! - A parked poll reads after [`PARKED`](parked::PARKED) at the latest, or as soon as a request through the same
//!   transport has changed what it waits for; that is the bound within which it learns what others do.
//! - A ceiling can't see other transports of the same address, nor other users of this process's descriptors
//!   and threads. There a refusal teaches: for a while no connection is opened, polls are parked, and
//!   short requests share those that are open.
//! - An agent may serve only so many requests a second. When it refuses a renewal for that, everything else waits.
//!
//! | file | says |
//! |---|---|
//! | `places` | which lane a request gets, and who waits for one: no clock, no I/O |
//! | `lanes` | what an adapter brings |
//! | `exchange` | one request from its lane to its answer |
//! | `parked` | a poll that has no lane |
//! | `rates` | what waits when the agent refuses requests for their number |
//! | `servers` | which of the servers behind a name is connected to |

mod exchange;
mod lanes;
mod parked;
mod places;
mod rates;
mod servers;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

pub use self::lanes::{Lane, Lanes, is_no_room};
use self::places::{Fate, Places, Waiter};
pub use self::servers::Servers;
use crate::build_error::BuildError;
use crate::defect::{Defect, is_on};
use crate::http::{Request, Response};
use crate::transport::TransportError;

/// How many connections a transport opens at most, unless it is told otherwise.
pub const MOST: usize = 64;

/// One in so many is left to connections that are being closed.
const CLOSING: usize = 16;

/// The connections of one transport: see the module. Clones share them.
#[derive(Clone, Debug)]
pub struct Connections {
    places: Arc<Mutex<Places<oneshot::Sender<Pass>>>>,
}

impl Connections {
    /// At most `most` connections, half of them for polls. With one, there are no long polls: everything
    /// is read every few seconds.
    ///
    /// `seed` decides its jitter: give each transport another one.
    ///
    /// # Errors
    /// [`BuildError::NoConnections`] if `most` is zero.
    pub fn new(most: usize, seed: u64) -> Result<Self, BuildError> {
        if most == 0 {
            return Err(BuildError::NoConnections);
        }
        // A connection may be opened while the one before it on the lane is still being closed.
        let lanes = most - most / CLOSING;
        let half = lanes / 2;
        let polls = if is_on(Defect::PollsTakeAll) {
            lanes
        } else {
            half
        };
        let places = Places::new(lanes - half, polls, seed);
        Ok(Self {
            places: Arc::new(Mutex::new(places)),
        })
    }

    /// Sends the request as soon as there is a lane for it, and waits for the whole answer. A poll without a
    /// lane is answered as if it had one, only later: see the module.
    ///
    /// # Errors
    /// As [`Transport::send`](crate::adapter::Transport::send). [`TransportErrorKind::NoRoom`](crate::adapter::TransportErrorKind::NoRoom)
    /// when no lane was free a second before [`Request::timeout`] is over, which covers the wait, or in half of that time where it is
    /// less than two seconds.
    ///
    /// # Cancel safety
    /// As [`Transport::send`](crate::adapter::Transport::send). A poll that is dropped keeps its lane until its wait is over.
    pub async fn send(
        &self,
        lanes: &(impl Lanes + ?Sized),
        request: Request,
    ) -> Result<Response, TransportError> {
        if request.is_long_poll() {
            self.poll(lanes, request).await
        } else {
            self.exchange(lanes, request).await
        }
    }

    /// Works on the places, and lets in those that have one now.
    fn with<T>(&self, work: impl FnOnce(&mut Places<oneshot::Sender<Pass>>) -> T) -> T {
        let mut places = self.lock();
        let result = work(&mut places);
        let admitted = places.admit();
        drop(places);
        for (waiter, lane, is_open) in admitted {
            // One that has gone meanwhile drops its pass, which comes back here.
            let _ = waiter.send(Pass::new(self, lane, is_open));
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Places<oneshot::Sender<Pass>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter for oneshot::Sender<Pass> {
    fn has_gone(&self) -> bool {
        self.is_canceled()
    }
}

/// The right to use a lane, until it is dropped.
struct Pass {
    connections: Connections,
    lane: Lane,
    /// Whether a connection is open on it, as far as is known.
    is_open: bool,
    /// What to say of the lane if nobody says more.
    fate: Fate,
}

impl Pass {
    fn new(connections: &Connections, lane: Lane, is_open: bool) -> Self {
        Self {
            connections: connections.clone(),
            lane,
            is_open,
            fate: Fate::Unused,
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let (lane, fate) = (self.lane, self.fate);
        self.connections.with(|places| places.leave(lane, fate));
    }
}
