//! One election and all its followers. They share one machine, and so one read.
//!
//! ```text
//!  Follower ─┐                     ┌─ Follow: what is known
//!  Follower ─┼─ whom it waits for ─┤
//!  Follower ─┘                     └─ who sends its requests
//! ```
//! - *Alone*: no task runs. The request under way wakes all who wait. The first one that is polled
//!   takes its answer and sends the next request.
//! - *At home*: the followers of a client are members of its hub, whose driver sends the requests
//!   of all and checks many keys together.
//!
//! In both cases nothing is sent unless somebody waits.

use core::mem;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Wake;

use super::hub::{Hub, SharedMachine};
use crate::driver::{Answered, exchange};
use crate::error::Error;
use crate::id::CommandId;
use crate::machine::{Attended, Follow, Interest, LeaderEvent, Member, MemberNo, Told};
use crate::runtime::{BoxFuture, Runtime};
use crate::sync::{Mutex, lock};
use crate::time::Instant;
use crate::transport::Transport;

pub(super) struct Followed {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
    home: Option<Home>,
}

/// The hub that a followed election belongs to.
struct Home {
    hub: Arc<Hub>,
    no: MemberNo,
}

struct State {
    follow: Follow,
    /// What all wait for, if it is alone: an answer, or the time of the next request.
    under_way: Option<BoxFuture<'static, Option<Answered>>>,
    last_listener: ListenerNo,
    listeners: usize,
    stage: Stage,
    /// What a listener that misses nothing was told.
    told: Told,
    /// When all who wait were last woken.
    called_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Nobody follows any more, and the hub has let it go.
    MovedOut,
    /// The driver of its hub has ended.
    Ended,
}

/// Identifies a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListenerNo(u64);

impl ListenerNo {
    /// There from the start: a hub lets go of what nobody follows.
    pub(super) const FIRST: Self = Self(1);
}

/// How soon a follower that was told something comes back, if it does.
const COMES_BACK: Duration = Duration::from_secs(1);

/// The waiting followers, by their numbers.
struct Waiting(Mutex<BTreeMap<ListenerNo, Waker>>);

impl Waiting {
    /// Adds a follower. Returns true if it is the first.
    fn add(&self, listener: ListenerNo, waker: &Waker) -> bool {
        let mut wakers = lock(&self.0);
        let is_first = wakers.is_empty();
        wakers.insert(listener, waker.clone());
        is_first
    }

    fn wake_all(&self) {
        let wakers = mem::take(&mut *lock(&self.0));
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
    /// Without a hub. It has one follower, [`ListenerNo::FIRST`].
    pub(super) fn alone(
        follow: Follow,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                follow,
                under_way: None,
                last_listener: ListenerNo::FIRST,
                listeners: 1,
                stage: Stage::Running,
                told: Told::default(),
                called_at: Instant::ORIGIN,
            }),
            waiting: Arc::new(Waiting(Mutex::new(BTreeMap::new()))),
            transport,
            runtime,
            home: None,
        }
    }

    /// A member of this hub, with its number there. It has one follower, [`ListenerNo::FIRST`].
    pub(super) fn at_home(
        follow: Follow,
        transport: Arc<dyn Transport>,
        hub: &Arc<Hub>,
        no: MemberNo,
    ) -> Self {
        let (hub, runtime) = (Arc::clone(hub), Arc::clone(hub.runtime()));
        Self {
            home: Some(Home { hub, no }),
            ..Self::alone(follow.looked_after(), transport, runtime)
        }
    }

    /// Adds a follower. `None` if this can't be followed any more.
    pub(super) fn listen(&self) -> Option<ListenerNo> {
        let mut state = lock(&self.state);
        (state.stage != Stage::MovedOut).then(|| state.add_listener())
    }

    /// Adds a follower beside another one.
    pub(super) fn listen_too(&self) -> ListenerNo {
        lock(&self.state).add_listener()
    }

    /// Removes a follower. Those who were woken with it go on.
    pub(super) fn leave(&self, listener: ListenerNo) {
        lock(&self.waiting.0).remove(&listener);
        let is_last = {
            let mut state = lock(&self.state);
            state.listeners -= 1;
            state.listeners == 0
        };
        if is_last {
            self.call_driver();
        }
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
        let state = lock(&self.state);
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
        let mut state = lock(&self.state);
        if let Some(event) = state.tell(told, self.runtime.now()) {
            return Poll::Ready(event);
        }
        if self.home.is_none() {
            return self.poll_alone(&mut state, listener, told, cx);
        }
        if state.stage == Stage::Ended {
            return Poll::Ready(Err(Error::ended()));
        }
        let is_first = self.waiting.add(listener, cx.waker());
        drop(state);
        if is_first {
            self.call_driver();
        }
        Poll::Pending
    }

    fn poll_alone(
        &self,
        state: &mut State,
        listener: ListenerNo,
        told: &mut Told,
        cx: &mut Context<'_>,
    ) -> Poll<Result<LeaderEvent, Error>> {
        loop {
            // After the runtime's end every sleep ends at once.
            if let Some(by) = self.runtime.ended() {
                return Poll::Ready(Err(by.into()));
            }
            let now = self.runtime.now();
            if state.under_way.is_none() {
                state.under_way = self.begin(&mut state.follow, now);
                // The knowledge may have become too old while nobody asked.
                if let Some(event) = state.tell(told, now) {
                    return Poll::Ready(event);
                }
            }
            self.waiting.add(listener, cx.waker());
            let Some(under_way) = &mut state.under_way else {
                return Poll::Pending;
            };
            let waker = Waker::from(Arc::clone(&self.waiting));
            let Poll::Ready(answered) = under_way.as_mut().poll(&mut Context::from_waker(&waker))
            else {
                return Poll::Pending;
            };
            state.under_way = None;
            let now = self.runtime.now();
            if let Some((id, result)) = answered {
                state.follow.handle_response(now, id, &result);
                // Each listener checks whether this is new to it.
                self.waiting.wake_all();
            }
            if let Some(event) = state.tell(told, now) {
                return Poll::Ready(event);
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

    /// Makes the driver of its hub look at it.
    fn call_driver(&self) {
        if let Some(home) = &self.home
            && self.runtime.ended().is_none()
        {
            home.hub.wake(home.no);
        }
    }
}

impl State {
    fn add_listener(&mut self) -> ListenerNo {
        self.last_listener.0 += 1;
        self.listeners += 1;
        self.last_listener
    }

    /// What this listener has not been told, if the knowledge may be used.
    fn tell(&self, told: &mut Told, now: Instant) -> Option<Result<LeaderEvent, Error>> {
        let may_use = self.is_fresh(now);
        may_use.then(|| told.next(self.follow.known())).flatten()
    }

    /// Returns true if the knowledge may be used, also that of a failure. After a time without waiting
    /// followers, the key must be read again first.
    fn is_fresh(&self, now: Instant) -> bool {
        let learned_at = self.follow.known().learned_at();
        learned_at.is_some_and(|at| now.saturating_since(at) <= self.follow.max_age())
    }

    fn interest(&self, now: Instant, waiting: &Waiting) -> Interest {
        if !lock(&waiting.0).is_empty() {
            Interest::Present
        } else if self.listeners > 0 && now.saturating_since(self.called_at) < COMES_BACK {
            Interest::Expected
        } else {
            Interest::None
        }
    }

    /// Works on the machine. Returns true if those who wait must look.
    fn attend(&mut self, now: Instant, work: impl FnOnce(&mut Follow)) -> bool {
        let was_fresh = self.is_fresh(now);
        work(&mut self.follow);
        let mut is_news = !was_fresh && self.is_fresh(now);
        while self.told.next(self.follow.known()).is_some() {
            is_news = true;
        }
        // One that has stopped waiting is found out when it does not come back.
        is_news |= now.saturating_since(self.called_at) >= self.follow.max_age();
        if is_news {
            self.called_at = now;
        }
        is_news
    }
}

/// Only at home. At a shutdown its followers go on.
impl SharedMachine for Followed {
    fn reach(&self, work: &mut dyn FnMut(&mut dyn Member)) -> bool {
        let now = self.runtime.now();
        let (is_needed, is_news) = {
            let mut state = lock(&self.state);
            let interest = state.interest(now, &self.waiting);
            let is_news = state.attend(now, |follow| work(&mut Attended { follow, interest }));
            let is_needed = state.listeners > 0;
            if !is_needed {
                state.stage = Stage::MovedOut;
            }
            (is_needed, is_news)
        };
        if is_news {
            self.waiting.wake_all();
        }
        is_needed
    }

    fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    fn end(&self) -> Vec<CommandId> {
        lock(&self.state).stage = Stage::Ended;
        self.waiting.wake_all();
        Vec::new()
    }
}
