//! One request from its lane to its answer, and what follows from a refusal.

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::lanes::{Lane, Lanes};
use super::places::{AT_ONCE, Fate};
use super::{Connections, Pass, rates};
use crate::http::{Method, Request, Response};
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};

type Answer = Result<Response, TransportError>;

impl Connections {
    /// Sends a request that is answered at once.
    pub(super) async fn exchange(&self, lanes: &(impl Lanes + ?Sized), request: Request) -> Answer {
        let ends = lanes.now() + request.timeout();
        // With less time left it would be given up under way, and its lane would count as held.
        let enters_by = ends - AT_ONCE.min(request.timeout() / 2);
        loop {
            let pass = self.enter(lanes, &request, enters_by).await?;
            let left = ends.saturating_since(lanes.now());
            let sent = request.clone().with_timeout(left);
            let (answer, refusal) = pass.send(lanes, sent, Fate::Dropped).await;
            let (now, is_refused) = (lanes.now(), rates::is_refused(&answer));
            self.with(|places| places.answered(now, request.priority(), is_refused));
            match refusal {
                None => {
                    if answer.is_ok() {
                        self.tell_of_changes(&request);
                    }
                    return answer;
                }
                Some(refusal)
                    if (refusal == Refusal::NotApplied || request.method() == Method::Get)
                        && lanes.now() < ends
                        && self.lock().has_open() => {}
                Some(_) => return answer,
            }
        }
    }

    /// Sends a poll on its lane. `None` if there was no connection for it.
    pub(super) async fn poll_on(
        &self,
        pass: Pass,
        lanes: &(impl Lanes + ?Sized),
        request: Request,
    ) -> Option<Answer> {
        let longest = request.longest_wait().unwrap_or(request.timeout());
        // Longer by an eighth, since this clock may run faster than the agent's.
        let until = lanes.now() + longest + longest / 8;
        let (answer, refusal) = pass.send(lanes, request, Fate::GivenUp(until)).await;
        refusal.is_none().then_some(answer)
    }

    /// Waits for a short lane.
    async fn enter(
        &self,
        lanes: &(impl Lanes + ?Sized),
        request: &Request,
        ends: Instant,
    ) -> Result<Pass, TransportError> {
        let (waiter, mut place) = oneshot::channel();
        let now = lanes.now();
        self.with(|places| places.queue(now, request.priority(), waiter));
        if let Ok(Some(pass)) = place.try_recv() {
            return Ok(pass);
        }
        loop {
            let now = lanes.now();
            let waits_until = self.with(|places| {
                places.pass_time(now);
                places.waits_until(request.priority())
            });
            let until = waits_until.unwrap_or(ends).min(ends);
            let wait = until.saturating_since(now);
            match select(&mut place, lanes.sleep(wait)).await {
                Either::Left((Ok(pass), _)) => return Ok(pass),
                // The timers of a runtime that has ended ring at once.
                Either::Right(_) if lanes.now() < ends && until <= lanes.now() + wait / 2 => {}
                _ => break,
            }
        }
        Err(TransportError::with_source(
            TransportErrorKind::NoRoom,
            "too many requests of this transport are under way",
        ))
    }

    /// Wakes the polls that wait for what this request may have changed.
    fn tell_of_changes(&self, request: &Request) {
        let hints = self.lock().changed(request.changed_paths());
        // The drop is the hint.
        drop(hints);
    }
}

impl Pass {
    /// Uses the lane. `if_dropped` is the lane's fate if nobody waits for the answer any more.
    async fn send(
        mut self,
        lanes: &(impl Lanes + ?Sized),
        request: Request,
        if_dropped: Fate,
    ) -> (Answer, Option<Refusal>) {
        self.fate = if_dropped;
        let began = lanes.now();
        let answer = lanes.send_on(self.lane, request).await;
        let now = lanes.now();
        let is_shared = self.connections.with(|places| {
            places.share(lanes.polls_per_connection());
            places.is_shared()
        });
        // A new stream may use an old connection.
        let is_new = !self.is_open && !is_shared;
        let is_at_once = now.saturating_since(began) < AT_ONCE;
        let refusal = Refusal::of(&answer, is_new && is_at_once);
        self.fate = match (&answer, refusal) {
            (_, Some(_)) => Fate::Refused(now),
            (Ok(response), None) if closes(response) => Fate::Failed,
            (Ok(_), None) => Fate::Answered(now),
            (Err(error), None) if error.kind() == TransportErrorKind::Timeout => {
                Fate::TimedOut(now)
            }
            (Err(_), None) => Fate::Failed,
        };
        if refusal.is_some() {
            let status = answer.as_ref().map(Response::status);
            tracing::debug!(name: "connection-refused", lane = ?self.lane, ?status, "a connection was refused");
            let connections = self.connections.clone();
            drop(self);
            let idle: Vec<Lane> = connections.lock().close_idle_polls();
            for lane in idle {
                lanes.close(lane);
            }
        }
        let answer = match refusal {
            Some(Refusal::MaybeApplied) => answer.map_err(closed_at_once),
            _ => answer,
        };
        (answer, refusal)
    }
}

/// A request could not get a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It was not applied.
    NotApplied,
    /// It is unknown whether it was applied.
    MaybeApplied,
}

impl Refusal {
    /// Detects a refusal. Agents from 1.9 on answer with one; older agents close the new connection
    /// at once.
    fn of(answer: &Answer, is_new: bool) -> Option<Self> {
        match answer {
            Ok(response) if is_over_limit(response) => Some(Self::NotApplied),
            Err(error) if error.kind() == TransportErrorKind::NoRoom => Some(Self::NotApplied),
            Err(error) if error.kind() == TransportErrorKind::Unknown && is_new => {
                Some(Self::MaybeApplied)
            }
            _ => None,
        }
    }
}

/// The answer of agents from 1.9 on to one connection too many. Other limits have other answers
/// with the same status.
fn is_over_limit(response: &Response) -> bool {
    const SAID: &[u8] = b"too many concurrent connections";
    response.status() == 429 && response.body().windows(SAID.len()).any(|it| it == SAID)
}

fn closes(response: &Response) -> bool {
    let connection = response.header("Connection");
    connection.is_some_and(|it| it.trim().eq_ignore_ascii_case("close"))
}

/// A new connection was closed before an answer.
#[derive(Debug, thiserror::Error)]
#[error(
    "the new connection was closed at once; an agent older than 1.9 does so if this address has too many \
     connections (`limits.http_max_conns_per_client`)"
)]
struct ClosedAtOnce(#[source] TransportError);

fn closed_at_once(error: TransportError) -> TransportError {
    TransportError::with_source(error.kind(), ClosedAtOnce(error))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::time::Duration;

    use async_trait::async_trait;
    use futures_util::FutureExt as _;
    use futures_util::future::pending;

    use super::*;

    /// Lanes on which nothing is answered, and whose timers ring at once. A moment passes with each
    /// look at the clock.
    #[derive(Default)]
    struct Ended {
        looks: AtomicUsize,
        sleeps: AtomicUsize,
    }

    #[async_trait]
    impl Lanes for Ended {
        async fn send_on(&self, _: Lane, _: Request) -> Answer {
            pending().await
        }

        fn close(&self, _: Lane) {}

        fn now(&self) -> Instant {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed);
            Instant::from_origin(Duration::from_micros(looks as u64))
        }

        async fn sleep(&self, _: Duration) {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_request_that_waits_for_a_lane_ends_with_the_timers_of_its_runtime() {
        let connections = Connections::new(1, 0).unwrap();
        let lanes = Ended::default();
        let read = || Request::new(Method::Get, "/v1/kv/a");
        let mut first = Box::pin(connections.exchange(&lanes, read()));
        assert!(first.as_mut().now_or_never().is_none(), "it has the lane");
        let second = connections.exchange(&lanes, read()).now_or_never();
        let refused = second.expect("it ends").unwrap_err();
        assert_eq!(refused.kind(), TransportErrorKind::NoRoom);
        assert_eq!(lanes.sleeps.load(Ordering::Relaxed), 1);
    }
}
