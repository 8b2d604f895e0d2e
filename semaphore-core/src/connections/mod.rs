//! Limits the connections of a transport, and decides which requests go first.
//!
//! An agent allows 200 connections from one address (`limits.http_max_conns_per_client`). It also
//! counts idle open connections, and blocking queries that were given up until their wait is over.
//! It refuses all further connections, even those for renewals. So one transport opens at most
//! [`MOST`], whatever is sent through it:
//!
//! ```text
//!                  ┌─ Lane::Short(0) … ──▶ one connection each, kept open for what comes next
//!   by priority ───┤
//!                  └─ Lane::Poll(0) … ───▶ one blocking query each; one that finds none is parked:
//!                                          it reads every few seconds, by a short lane
//! ```
//! - Over HTTP/2 a lane is a stream. All short lanes share one connection, so that no renewal waits
//!   behind the answer to a poll. Polls share others: up to [`MOST_POLLS`](places::MOST_POLLS),
//!   whatever the number of connections.
//! - With 64 connections there are 60 lanes, since some connections may still be closing. Polls
//!   have half of the lanes. Some of the other half are reserved for
//!   [urgent](crate::sans_io::Priority::Urgent) requests.
//! - A poll never uses the connection of a short lane.
//! - A poll that is given up keeps its lane until its wait would be over.
//! - A short request that is given up leaves its lane, but an agent without a leader holds it for
//!   up to 18 s more, and counts it. With 60 such requests new ones wait, and with 100 also
//!   renewals.
//! - A short request that has no lane a second before its timeout is not sent: it would be given up
//!   under way.
//! - A parked poll reads at least once in [`PARKED`](places::PARKED). It also reads as soon as a
//!   request of the same transport has changed what it waits for. It learns within that time what
//!   others do.
//! - While nothing is answered, four short requests are sent in a second.
//! - The limit does not include other transports of the same address, or other users of the
//!   process's descriptors and threads. They may cause a refusal. After one, no connection is
//!   opened for a while, polls are parked, and short requests share the open connections.
//! - An agent may limit the requests of a second. If it refuses a renewal for that reason,
//!   everything else waits.
//!
//! | file | says |
//! |---|---|
//! | `places` | which lane a request gets, and who waits for one: no clock, no I/O |
//! | `lanes` | what an adapter brings |
//! | `exchange` | one request from its lane to its answer |
//! | `parked` | a poll that has no lane |
//! | `silence` | how rarely is sent while nothing is answered |
//! | `rates` | what waits when the agent refuses requests for their number |
//! | `servers` | which of the servers behind a name is connected to |

mod exchange;
mod lanes;
mod parked;
mod places;
mod rates;
mod servers;
mod silence;
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
use crate::token_source::authorized;
use crate::transport::TransportError;

/// The most connections of a transport by default.
pub const MOST: usize = 64;

/// One in 16 is reserved for connections that are closing.
const CLOSING: usize = 16;

/// The connections of one transport: see the module. Clones share them.
#[derive(Clone, Debug)]
pub struct Connections {
    places: Arc<Mutex<Places<oneshot::Sender<Pass>>>>,
}

/// How many of these lanes polls may take.
fn lanes_for_polls(lanes: usize) -> usize {
    if is_on(Defect::PollsTakeAll) {
        lanes
    } else {
        lanes / 2
    }
}

impl Connections {
    /// At most `most` connections, half of them for polls. With one connection there are no long
    /// polls: everything is read every few seconds.
    ///
    /// `seed` decides its jitter. Use a different seed for each transport.
    ///
    /// # Errors
    /// [`BuildError::NoConnections`] if `most` is zero.
    pub fn new(most: usize, seed: u64) -> Result<Self, BuildError> {
        if most == 0 {
            return Err(BuildError::NoConnections);
        }
        // A connection may be opened while the lane's former connection is still closing.
        let lanes = most - most / CLOSING;
        let half = lanes / 2;
        let polls = lanes_for_polls(lanes);
        let places = Places::new(lanes - half, polls, seed);
        Ok(Self {
            places: Arc::new(Mutex::new(places)),
        })
    }

    /// Sends the request as soon as it has a lane, and waits for the whole answer. A poll without a
    /// lane also gets its answer, but later: see the module. A request without a token gets that of
    /// [`Lanes::tokens`].
    ///
    /// # Errors
    /// As [`Transport::send`](crate::adapter::Transport::send).
    /// [`TransportErrorKind::NoRoom`](crate::adapter::TransportErrorKind::NoRoom) if no lane was
    /// free a second before the end of [`Request::timeout`], or at half of a timeout below two
    /// seconds. The timeout includes the wait.
    ///
    /// # Cancel safety
    /// As [`Transport::send`](crate::adapter::Transport::send). A dropped poll keeps its lane until
    /// its wait is over.
    pub async fn send(
        &self,
        lanes: &(impl Lanes + ?Sized),
        request: Request,
    ) -> Result<Response, TransportError> {
        match lanes.tokens() {
            Some(tokens) if !request.has_token() => {
                let send = async |request: Request| {
                    // An error says whether there was a token.
                    let asked = request.asked();
                    Ok(self.send_as_it_is(lanes, request).await?.to(asked))
                };
                authorized(tokens, request, send).await
            }
            _ => self.send_as_it_is(lanes, request).await,
        }
    }

    async fn send_as_it_is(
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

    /// Works on the places, and admits those that have one now.
    fn with<T>(&self, work: impl FnOnce(&mut Places<oneshot::Sender<Pass>>) -> T) -> T {
        let mut places = self.lock();
        let result = work(&mut places);
        let admitted = places.admit();
        drop(places);
        for (waiter, lane, is_open) in admitted {
            // If the waiter is gone, its pass is dropped and comes back here.
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
    /// The fate of the lane if nothing else is set.
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
