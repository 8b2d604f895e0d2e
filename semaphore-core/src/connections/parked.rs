//! A poll without a lane. It reads with short requests, in slices, until there is news, its wait is
//! over, or it gets a lane.

use core::pin::pin;
use core::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::lanes::Lanes;
use super::places::Ticket;
use super::{Connections, Pass};
use crate::http::{Request, Response};
use crate::transport::{TransportError, TransportErrorKind};

impl Connections {
    /// Sends a poll.
    pub(super) async fn poll(
        &self,
        lanes: &(impl Lanes + ?Sized),
        request: Request,
    ) -> Result<Response, TransportError> {
        let slice = request.slice();
        let mut parked = ParkedPoll::new(self, lanes, &request);
        if let Some(pass) = parked.place() {
            if let Some(answer) = self.poll_on(pass, lanes, request.clone()).await {
                return answer;
            }
            // Its place in the queue is used up.
            parked = ParkedPoll::new(self, lanes, &request);
        }
        let ends = lanes.now() + request.wait().unwrap_or(request.timeout());
        loop {
            let left = ends.saturating_since(lanes.now());
            let place = match &slice {
                Some(_) => {
                    let look_in = self.lock().look_in().min(left);
                    parked.place_before_a_look(lanes, look_in).await
                }
                None => parked.place_within(lanes, left).await,
            };
            if let Some(pass) = place {
                let left = ends.saturating_since(lanes.now());
                let sent = request.clone().lasting(left);
                if let Some(answer) = self.poll_on(pass, lanes, sent).await {
                    return answer;
                }
                parked = ParkedPoll::new(self, lanes, &request);
                continue;
            }
            let Some(slice) = &slice else {
                return Err(TransportError::with_source(
                    TransportErrorKind::NoRoom,
                    "too many polls of this transport are under way",
                ));
            };
            let is_over = ends <= lanes.now();
            tracing::debug!(name: "poll-sliced", "a poll without a connection looks by a short request");
            let answer = self.exchange(lanes, slice.clone()).await;
            if is_over || is_news(&answer, slice) {
                return answer;
            }
        }
    }
}

/// A poll in the queue for a lane. Dropping it leaves the queue.
struct ParkedPoll<'a> {
    connections: &'a Connections,
    ticket: Ticket,
    place: oneshot::Receiver<Pass>,
}

impl<'a> ParkedPoll<'a> {
    fn new(connections: &'a Connections, lanes: &(impl Lanes + ?Sized), request: &Request) -> Self {
        let (waiter, place) = oneshot::channel();
        let now = lanes.now();
        let recurses = request.path().ends_with('/');
        let (priority, path) = (request.priority(), request.path());
        let ticket = connections.with(|places| places.park(now, priority, path, recurses, waiter));
        Self {
            connections,
            ticket,
            place,
        }
    }

    /// The lane, if it has one now.
    fn place(&mut self) -> Option<Pass> {
        self.place.try_recv().ok().flatten()
    }

    /// The lane, if it gets one within this time.
    async fn place_within(
        &mut self,
        lanes: &(impl Lanes + ?Sized),
        most: Duration,
    ) -> Option<Pass> {
        match select(&mut self.place, lanes.sleep(most)).await {
            Either::Left((place, _)) => place.ok(),
            Either::Right(_) => None,
        }
    }

    /// The same, unless the read data may have changed before.
    async fn place_before_a_look(
        &mut self,
        lanes: &(impl Lanes + ?Sized),
        most: Duration,
    ) -> Option<Pass> {
        let (waker, hint) = oneshot::channel();
        let now = lanes.now();
        self.connections
            .with(|places| places.await_hint(now, self.ticket, waker));
        // The place comes first: a poll that has one is no longer parked, and gets no hints.
        match select(pin!(self.place_within(lanes, most)), hint).await {
            Either::Left((place, _)) => place,
            Either::Right(_) => None,
        }
    }
}

impl Drop for ParkedPoll<'_> {
    fn drop(&mut self) {
        self.connections.with(|places| places.unpark(self.ticket));
    }
}

/// Whether a poll would have got this answer before the end of its wait.
fn is_news(answer: &Result<Response, TransportError>, slice: &Request) -> bool {
    let known = slice.parameter("index");
    let told = match answer {
        Ok(response) => response.header("X-Consul-Index"),
        Err(_) => None,
    };
    told.is_none_or(|told| Some(told.trim()) != known)
}
