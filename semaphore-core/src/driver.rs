//! Runs machines with the two traits. Here the protocol meets I/O.
//!
//! [`drive`] is the loop of a [`Hub`] and its machines, a future for any runtime. [`run`] runs an
//! [`Operation`] to its end. Neither knows what sends its requests.
//!
//! ```text
//!  drive ──▶ Driver::run until nothing is left
//!              │ dropped with its runtime
//!              ▼
//!            Runtime::finish ──▶ Driver::finish, over another transport: gives back, for the farewell's time at most
//! ```

use core::future::{Future, poll_fn};
use core::iter;
use core::ops::ControlFlow;
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable, Either, select};
use futures_util::stream::FuturesUnordered;
use tracing::{Instrument as _, Span};

use crate::defect::{Defect, is_on};
use crate::error::Error;
use crate::handle::{Arrivals, Audience, Exchange, Hub, Observers, Reply, SharedMachine, kind_of};
use crate::http::Response;
use crate::id::{CommandId, RequestId};
use crate::machine::{MachineSet, MemberNo, Notice, Origin, RequestEnd, Transmit};
use crate::manage::{Operation, Task};
use crate::runtime::Unfinished;
use crate::runtime::{BoxFuture, Runtime};
use crate::time::Instant;
use crate::transport::{Transport, TransportError, TransportErrorKind};

/// Runs the machines of a hub until all handles are gone and the machines have cleaned up.
///
/// # Cancel safety
/// Dropping it ends the machines: waiters fail, and holders are told. [`Runtime::finish`] gets the
/// remaining cleanup; without that the TTL cleans up.
pub(crate) fn drive(
    hub: Arc<Hub>,
    machines: MachineSet<Arc<dyn SharedMachine>>,
) -> impl Future<Output = ()> + Send {
    // Made here, so that it is dropped properly even if the runtime drops the future before its
    // first poll.
    let mut driver = Driver {
        runtime: Arc::clone(hub.runtime()),
        way: Way::Usual,
        machines,
        requests: Exchanges::default(),
        alarm: Alarm::default(),
        farewell: Duration::ZERO,
        is_over: false,
        hub,
    };
    async move { driver.run().await }
}

/// The machines of a hub, their runtime, and their requests under way.
struct Driver {
    hub: Arc<Hub>,
    runtime: Arc<dyn Runtime>,
    way: Way,
    machines: MachineSet<Arc<dyn SharedMachine>>,
    requests: Exchanges,
    alarm: Alarm,
    /// How long the machines' farewells may take.
    farewell: Duration,
    /// Whether nothing is left to do, or something else continues it.
    is_over: bool,
}

/// The transport of the requests.
enum Way {
    /// The transport that each machine was connected to.
    Usual,
    /// This one for all, since the others ended with their runtime.
    Farewell(Arc<dyn Transport>),
}

impl Driver {
    async fn run(&mut self) {
        while self.step().is_continue() {
            let timeouts = [self.machines.poll_timeout(), self.hub.poll_timeout()];
            let timeout = timeouts.into_iter().flatten().min();
            // If something is due, other tasks of this thread run first. The requests may be among
            // them.
            let now = self.runtime.now();
            let is_due = timeout.is_some_and(|at| at <= now);
            let mut has_waited = false;
            let timeout = timeout.filter(|_| !is_due);
            self.alarm.set(timeout, &self.runtime);
            let Self {
                hub,
                requests,
                alarm,
                ..
            } = self;
            let answered = poll_fn(|cx| {
                if let Poll::Ready(Some(answered)) = requests.running.poll_next_unpin(cx) {
                    return Poll::Ready(answered.ok());
                }
                if hub.take_notice(cx) || alarm.has_rung(cx) {
                    return Poll::Ready(None);
                }
                if is_due && core::mem::replace(&mut has_waited, true) {
                    return Poll::Ready(None);
                }
                if is_due {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            })
            .await;
            if let Some((id, result)) = answered {
                self.requests.aborts.remove(&id);
                let reply = match &result {
                    Ok(_) => Reply::Came,
                    Err(_) => Reply::Missing,
                };
                self.hub.ended(id, reply);
                let now = self.runtime.now();
                self.take(now, id, result);
            }
        }
        self.is_over = true;
    }

    /// Does everything that is due. Breaks if nothing is left to wait for.
    fn step(&mut self) -> ControlFlow<()> {
        let now = self.runtime.now();
        self.hub.attend();
        let Arrivals {
            is_closed,
            shuts_down,
            is_awaited,
            ..
        } = self.let_in();
        if is_closed {
            self.machines.close(now);
        }
        if shuts_down {
            self.shut_down(now);
        }
        self.machines.handle_timeout(now);
        self.hub.let_time_pass(now);
        while let Some((origin, transmit)) = self.machines.poll_transmit() {
            let transport = self.transport_of(origin);
            if !transmit.request.is_long_poll() {
                self.hub.asked(transmit.id);
            }
            let exchange = self.counted(origin, &transport, transmit);
            self.requests.send(exchange);
        }
        while let Some(id) = self.machines.poll_abort() {
            self.requests.abort(id);
            self.hub.ended(id, Reply::Missing);
        }
        if is_awaited && self.is_quiet() {
            self.hub.tell_quiet();
        }
        let is_over = self.machines.is_empty() && is_closed && self.hub.end_unless_joined();
        if is_over {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Ends everything that can end. No machine joins afterwards, so once is enough.
    fn shut_down(&mut self, now: Instant) {
        self.machines.close(now);
        let members = self.machines.members_mut().map(|(no, member)| {
            member.shut_down(now);
            no
        });
        for no in members.collect::<Vec<_>>() {
            self.machines.wake(no);
        }
    }

    /// Adds the machines that have joined.
    fn let_in(&mut self) -> Arrivals {
        let mut arrivals = self.hub.take_arrivals();
        for arrival in arrivals.joining.drain(..) {
            let (no, shares) = (arrival.no, arrival.shares);
            self.farewell = self.farewell.max(arrival.member.farewell());
            self.machines.join(no, arrival.member, shares);
        }
        for no in arrivals.woken.drain(..) {
            self.machines.wake(no);
        }
        arrivals
    }

    /// Takes the outcome of a request.
    fn take(&mut self, now: Instant, id: RequestId, result: Result<Response, TransportError>) {
        if let Some((origin, end)) = self.machines.hear_response(now, id, result) {
            self.hear(origin, &end);
        }
    }

    /// Tells how a request ended.
    fn hear(&self, origin: Origin, end: &RequestEnd) {
        if let Some(error) = end.failure() {
            let audience = self.audience_of(origin);
            if audience.is_there() {
                let error = error.clone();
                audience.bring(iter::once(Notice::RequestFailed { error }));
                audience.tell();
            }
        }
        self.hub.hear(end);
    }

    fn is_quiet(&mut self) -> bool {
        let is_left_alone = self.machines.has_only_held_up();
        is_left_alone && self.machines.members_mut().all(|(_, it)| it.is_quiet())
    }

    /// The sender of a request, unless it is the set.
    fn member(&self, origin: Origin) -> Option<&Arc<dyn SharedMachine>> {
        match origin {
            Origin::Member(no) => self.machines.member(no),
            Origin::Sessions(_) | Origin::Checks(_) | Origin::Waits(_) => None,
        }
    }

    /// Those who look on at the sender of a request.
    fn audience_of(&self, origin: Origin) -> &Audience {
        let audience = self.member(origin).and_then(|it| it.audience());
        audience.unwrap_or(self.hub.audience())
    }

    fn transport_of(&self, origin: Origin) -> Arc<dyn Transport> {
        match (&self.way, self.member(origin)) {
            (Way::Usual, Some(member)) => Arc::clone(member.transport()),
            (Way::Usual, None) => Arc::clone(self.hub.authorized()),
            (Way::Farewell(transport), Some(member)) => member.over(Arc::clone(transport)),
            (Way::Farewell(transport), None) => self.hub.over(Arc::clone(transport)),
        }
    }

    /// A request with its log span. Its end is reported to observers.
    fn counted(
        &self,
        origin: Origin,
        transport: &Arc<dyn Transport>,
        transmit: Transmit,
    ) -> (RequestId, BoxFuture<'static, Answered>) {
        let audience = self.audience_of(origin);
        let (span, observers) = (audience.span().clone(), audience.observers());
        let (id, kind) = (transmit.id, kind_of(&transmit.request));
        let exchange = exchange(transport, transmit, span);
        if observers.is_empty() {
            return (id, exchange);
        }
        let counted = count(exchange, kind, observers.clone(), Arc::clone(&self.runtime));
        (id, Box::pin(counted))
    }

    /// Gives back what is held and cleans up, for at most `most`. Returns whether nothing is left.
    async fn finish(
        mut self,
        asked: Vec<RequestId>,
        held: Vec<(MemberNo, Vec<CommandId>)>,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
        most: Duration,
    ) -> bool {
        let now = runtime.now();
        self.way = Way::Farewell(transport);
        self.runtime = Arc::clone(&runtime);
        // Nobody comes any more, even if handles are left.
        self.hub.close();
        for id in asked {
            self.hub.ended(id, Reply::Missing);
            let unknown = TransportError::new(TransportErrorKind::Unknown);
            self.take(now, id, Err(unknown));
        }
        for (no, held) in held {
            if let Some(member) = self.machines.member(no) {
                member.abandon(now, &held);
                self.machines.wake(no);
            }
        }
        let end = pin!(self.run());
        matches!(select(end, runtime.sleep(most)).await, Either::Left(_))
    }
}

/// Tells everybody that the driver has ended, alone or with its runtime, and passes on the
/// remaining cleanup.
impl Drop for Driver {
    fn drop(&mut self) {
        self.let_in();
        let asked = self.requests.give_up();
        let mut held = Vec::new();
        // What a client keeps for later turns has no member any more.
        let mut is_left = !self.machines.has_only_held_up();
        for (no, member) in self.machines.members_mut() {
            held.push((no, member.end()));
            is_left |= !member.is_idle();
        }
        self.hub.end();
        let farewell = self.farewell;
        if self.is_over || !is_left || farewell.is_zero() || is_on(Defect::FarewellUnsaid) {
            return;
        }
        let rest = Self {
            hub: Arc::clone(&self.hub),
            runtime: Arc::clone(&self.runtime),
            way: Way::Usual,
            machines: core::mem::replace(&mut self.machines, MachineSet::new(0)),
            requests: Exchanges::default(),
            alarm: Alarm::default(),
            farewell,
            is_over: true,
        };
        let rest = Unfinished::new(move |transport, runtime| {
            Box::pin(rest.finish(asked, held, transport, runtime, farewell))
        });
        self.runtime.finish(rest);
    }
}

/// Runs an operation to its end.
///
/// # Cancel safety
/// After a drop, a write under way may or may not be applied; starting the operation again is safe.
pub(crate) async fn run<T: Task>(
    mut operation: Operation<T>,
    transport: &dyn Transport,
    runtime: &dyn Runtime,
) -> Result<T::Output, Error> {
    loop {
        if let Some(output) = operation.poll_output() {
            return output;
        }
        if let Some(by) = runtime.ended() {
            return Err(by.into());
        }
        let now = runtime.now();
        if let Some(request) = operation.poll_transmit(now) {
            let result = transport.send(request).await;
            operation.handle_response(runtime.now(), &result);
        } else {
            let at = operation.poll_timeout().unwrap_or(now);
            runtime.sleep(at.saturating_since(now)).await;
        }
    }
}

/// The requests under way.
#[derive(Default)]
struct Exchanges {
    running: FuturesUnordered<Abortable<BoxFuture<'static, Answered>>>,
    aborts: BTreeMap<RequestId, AbortHandle>,
}

pub(crate) type Answered = (RequestId, Result<Response, TransportError>);

/// Sends one request of a machine, and waits for its answer.
pub(crate) fn exchange(
    transport: &Arc<dyn Transport>,
    transmit: Transmit,
    span: Span,
) -> BoxFuture<'static, Answered> {
    let Transmit { id, request } = transmit;
    let transport = Arc::clone(transport);
    let exchange = async move {
        tracing::trace!(name: "sending", ?id, ?request, "sending");
        let result = transport.send(request).await;
        let status = result.as_ref().map(Response::status);
        tracing::trace!(name: "answered", ?id, ?status, "answered");
        (id, result)
    };
    Box::pin(exchange.instrument(span))
}

/// Reports a request when it has ended.
async fn count(
    exchange: BoxFuture<'static, Answered>,
    kind: &'static str,
    observers: Observers,
    runtime: Arc<dyn Runtime>,
) -> Answered {
    let sent_at = runtime.now();
    let (id, result) = exchange.await;
    let took = runtime.now().saturating_since(sent_at);
    observers.exchange(&Exchange::new(kind, &result, took));
    (id, result)
}

impl Exchanges {
    fn send(&mut self, (id, exchange): (RequestId, BoxFuture<'static, Answered>)) {
        let (abort, registration) = AbortHandle::new_pair();
        self.aborts.insert(id, abort);
        self.running.push(Abortable::new(exchange, registration));
    }

    /// Drops all requests and returns their ids.
    fn give_up(&mut self) -> Vec<RequestId> {
        self.running = FuturesUnordered::new();
        core::mem::take(&mut self.aborts).into_keys().collect()
    }

    fn abort(&mut self, id: RequestId) {
        if let Some(abort) = self.aborts.remove(&id) {
            abort.abort();
        }
    }
}

/// The timer. It is replaced only if the time changes.
#[derive(Default)]
struct Alarm {
    at: Option<Instant>,
    sleep: Option<BoxFuture<'static, ()>>,
}

impl Alarm {
    fn set(&mut self, at: Option<Instant>, runtime: &Arc<dyn Runtime>) {
        if self.at == at && self.sleep.is_some() {
            return;
        }
        self.at = at;
        self.sleep = at.map(|at| {
            let runtime = Arc::clone(runtime);
            let wait = at.saturating_since(runtime.now());
            Box::pin(async move { runtime.sleep(wait).await }) as BoxFuture<'static, ()>
        });
    }

    fn has_rung(&mut self, cx: &mut core::task::Context<'_>) -> bool {
        let has_rung = self
            .sleep
            .as_mut()
            .is_some_and(|sleep| Pin::new(sleep).poll(cx).is_ready());
        if has_rung {
            self.sleep = None;
        }
        has_rung
    }
}
