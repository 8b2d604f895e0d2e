//! One election and all its followers. They share one machine, and so one read.
//!
//! ```text
//!  Follower ─┐                      ┌─ Follow: what is known
//!  Follower ─┼─ whom it waits for ─┤
//!  Follower ─┘   drives it          └─ the request under way
//! ```
//! No task runs. The request under way wakes all who wait. The first one that is polled takes its
//! answer and sends the next request.

use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use crate::driver::{Answered, exchange};
use crate::error::Error;
use crate::machine::{Follow, LeaderEvent, Told};
use crate::runtime::{BoxFuture, Runtime};
use crate::time::Instant;
use crate::transport::Transport;

pub(super) struct Followed {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
}

struct State {
    follow: Follow,
    /// What all wait for: an answer, or the time of the next request.
    under_way: Option<BoxFuture<'static, Option<Answered>>>,
    listeners: u64,
}

/// Identifies a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListenerNo(u64);

/// The waiting followers, by their numbers.
#[derive(Default)]
struct Waiting(Mutex<BTreeMap<ListenerNo, Waker>>);

impl Waiting {
    fn wakers(&self) -> MutexGuard<'_, BTreeMap<ListenerNo, Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        let wakers = core::mem::take(&mut *self.wakers());
        for waker in wakers.into_values() {
            waker.wake();
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}

impl Followed {
    pub(super) fn new(
        follow: Follow,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                follow,
                under_way: None,
                listeners: 0,
            }),
            waiting: Arc::default(),
            transport,
            runtime,
        }
    }

    /// Adds a follower.
    pub(super) fn listen(&self) -> ListenerNo {
        let mut state = self.lock();
        state.listeners += 1;
        ListenerNo(state.listeners)
    }

    /// Removes a follower. Those who were woken with it go on.
    pub(super) fn leave(&self, listener: ListenerNo) {
        self.waiting.wakers().remove(&listener);
    }

    /// The agent's address, as errors show it.
    pub(super) fn address(&self) -> Option<String> {
        self.transport.address()
    }

    pub(super) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// When the request was sent whose answer last confirmed what this listener knows. `None` if
    /// the listener does not have the present knowledge.
    pub(super) fn confirmed_at(&self, told: &Told) -> Option<Instant> {
        let state = self.lock();
        let known = state.follow.known();
        known.asked_at().filter(|_| !told.is_behind(known))
    }

    /// Waits for something that this listener has not been told.
    pub(super) fn poll_next(
        &self,
        listener: ListenerNo,
        told: &mut Told,
        cx: &mut Context<'_>,
    ) -> Poll<Result<LeaderEvent, Error>> {
        if let Some(by) = self.runtime.ended() {
            return Poll::Ready(Err(by.into()));
        }
        let mut state = self.lock();
        loop {
            let now = self.runtime.now();
            if state.is_fresh(now)
                && let Some(event) = told.next(state.follow.known())
            {
                return Poll::Ready(event);
            }
            if state.under_way.is_none() {
                state.under_way = self.begin(&mut state.follow, now);
                // The knowledge may have become too old while nobody asked.
                if state.is_fresh(now)
                    && let Some(event) = told.next(state.follow.known())
                {
                    return Poll::Ready(event);
                }
            }
            self.waiting.wakers().insert(listener, cx.waker().clone());
            let Some(under_way) = &mut state.under_way else {
                return Poll::Pending;
            };
            let waker = Waker::from(Arc::clone(&self.waiting));
            let Poll::Ready(answered) = under_way.as_mut().poll(&mut Context::from_waker(&waker))
            else {
                return Poll::Pending;
            };
            state.under_way = None;
            if let Some((id, result)) = answered {
                let now = self.runtime.now();
                state.follow.handle_response(now, id, &result);
                // Each listener checks whether this is new to it.
                self.waiting.wake_all();
            }
        }
    }

    /// What the machine wants next: an answer, or that time passes.
    fn begin(
        &self,
        follow: &mut Follow,
        now: Instant,
    ) -> Option<BoxFuture<'static, Option<Answered>>> {
        if let Some(transmit) = follow.transmit(now) {
            let exchange = exchange(&self.transport, transmit, tracing::Span::none());
            return Some(Box::pin(async move { Some(exchange.await) }));
        }
        let wait = follow.due()?.saturating_since(now);
        let runtime = Arc::clone(&self.runtime);
        Some(Box::pin(async move {
            runtime.sleep(wait).await;
            None
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the knowledge may be used. After a time without waiting followers, the key must be
    /// read again first.
    fn is_fresh(&self, now: Instant) -> bool {
        let known = self.follow.known();
        let is_recent = |at| now.saturating_since(at) <= self.follow.max_age();
        known.is_in_trouble() || known.answered_at().is_some_and(is_recent)
    }
}
