//! Runs a machine over the two traits: the one place where the protocol meets I/O.
//!
//! [`drive`] is the loop of a [`Machine`], a future that any runtime can poll; [`run`] brings an [`Operation`] to its end.
//! Neither knows what sends its requests.
//!
//! ```text
//!  drive ──▶ Driver::run until nothing is left
//!              │ dropped with its runtime
//!              ▼
//!            Runtime::finish ──▶ finish, over another transport: gives back, for the farewell's time at most
//! ```

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable, Either, select};
use futures_util::stream::FuturesUnordered;

use crate::error::Error;
use crate::handle::Shared;
use crate::http::Response;
use crate::id::{CommandId, RequestId};
use crate::machine::{Machine, Transmit};
use crate::manage::{Operation, Task};
use crate::runtime::Unfinished;
use crate::runtime::{BoxFuture, Runtime};
use crate::time::Instant;
use crate::transport::{Transport, TransportError, TransportErrorKind};

/// Runs the machine behind `shared` until its handles are gone and nothing of it is left.
///
/// # Cancel safety
/// Dropping it ends the machine: whoever waits fails, and whoever holds is told. What is left in Consul is handed to
/// [`Runtime::finish`]; without that the TTL cleans up.
pub(crate) fn drive<M: Machine>(shared: Arc<Shared<M>>) -> impl Future<Output = ()> + Send {
    // Made here, so that a runtime that drops the future before its first poll ends it too.
    let (transport, runtime) = (shared.transport().clone(), shared.runtime().clone());
    let farewell = shared.farewell();
    let mut driver = Driver::new(shared, transport, runtime, farewell);
    async move { driver.run().await }
}

/// A machine with what it is run on, and what of it is under way.
struct Driver<M: Machine> {
    shared: Arc<Shared<M>>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
    requests: Exchanges,
    alarm: Alarm,
    /// For how long somebody else goes on when this is dropped.
    farewell: Duration,
}

impl<M: Machine> Driver<M> {
    fn new(
        shared: Arc<Shared<M>>,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
        farewell: Duration,
    ) -> Self {
        Self {
            shared,
            transport,
            runtime,
            requests: Exchanges::default(),
            alarm: Alarm::default(),
            farewell,
        }
    }

    async fn run(&mut self) {
        let Self {
            shared,
            transport,
            runtime,
            requests,
            alarm,
            ..
        } = self;
        loop {
            let now = runtime.now();
            let timeout = shared.with(|state| {
                state.machine.handle_timeout(now);
                while let Some(transmit) = state.machine.poll_transmit(now) {
                    requests.send(transport, transmit);
                }
                while let Some(id) = state.machine.poll_abort() {
                    requests.abort(id);
                }
                (!state.is_over()).then(|| state.machine.poll_timeout())
            });
            let Some(timeout) = timeout else {
                return;
            };
            alarm.set(timeout, runtime);
            let answered = poll_fn(|cx| {
                if let Poll::Ready(Some(answered)) = requests.running.poll_next_unpin(cx) {
                    return Poll::Ready(answered.ok());
                }
                if shared.take_notice(cx) || alarm.has_rung(cx) {
                    return Poll::Ready(None);
                }
                Poll::Pending
            })
            .await;
            if let Some((id, result)) = answered {
                requests.aborts.remove(&id);
                let now = runtime.now();
                shared.with(|state| state.machine.handle_response(now, id, result));
            }
        }
    }
}

/// Tells everybody when the driver ends, by itself or with its runtime, and hands on what is left.
impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        let asked = self.requests.give_up();
        let held = self.shared.end();
        let is_idle = self.shared.with(|state| state.machine.is_idle());
        if is_idle || self.farewell.is_zero() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let most = self.farewell;
        let rest = Unfinished::new(move |transport, runtime| {
            Box::pin(finish(shared, asked, held, transport, runtime, most))
        });
        self.runtime.finish(rest);
    }
}

/// Gives back what is held and cleans up, for `most` at most. Whether nothing is left.
async fn finish<M: Machine>(
    shared: Arc<Shared<M>>,
    asked: Vec<RequestId>,
    held: Vec<CommandId>,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
    most: Duration,
) -> bool {
    let now = runtime.now();
    let transport = shared.tokens().over(transport);
    shared.with(|state| {
        for id in asked {
            let unknown = TransportError::new(TransportErrorKind::Unknown);
            state.machine.handle_response(now, id, Err(unknown));
        }
        for command in held {
            state.machine.cancel(now, command);
        }
        state.abandon(now);
    });
    let mut driver = Driver::new(shared, transport, Arc::clone(&runtime), Duration::ZERO);
    let end = pin!(driver.run());
    matches!(select(end, runtime.sleep(most)).await, Either::Left(_))
}

/// Brings an operation to its end.
///
/// # Cancel safety
/// Dropping it leaves a write that is under way undecided; starting the operation anew is safe.
pub(crate) async fn run<T: Task>(
    mut operation: Operation<T>,
    transport: &dyn Transport,
    runtime: &dyn Runtime,
) -> Result<T::Output, Error> {
    loop {
        if let Some(output) = operation.poll_output() {
            return output;
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
) -> BoxFuture<'static, Answered> {
    let Transmit { id, request } = transmit;
    tracing::trace!(?id, ?request, "sending");
    let transport = Arc::clone(transport);
    Box::pin(async move {
        let result = transport.send(request).await;
        let status = result.as_ref().map(Response::status);
        tracing::trace!(?id, ?status, "answered");
        (id, result)
    })
}

impl Exchanges {
    fn send(&mut self, transport: &Arc<dyn Transport>, transmit: Transmit) {
        let (abort, registration) = AbortHandle::new_pair();
        self.aborts.insert(transmit.id, abort);
        let exchange = exchange(transport, transmit);
        self.running.push(Abortable::new(exchange, registration));
    }

    /// Drops them all, and says which they were.
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

/// The timer, made anew only when it is due at another time.
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
