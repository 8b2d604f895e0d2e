//! Runs a machine over the two traits: the one place where the protocol meets I/O.
//!
//! [`drive`] is the loop of a [`Machine`], a future that any runtime can poll; [`run`] brings an [`Operation`] to its end. Neither knows what sends its requests.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;

use crate::error::Error;
use crate::handle::Shared;
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::{Machine, Transmit};
use crate::manage::{Operation, Task};
use crate::time::Instant;
use crate::transport::{BoxFuture, Runtime, Transport, TransportError};

/// Runs the machine behind `shared` until its handles are gone and nothing of it is left.
///
/// # Cancel safety
/// Dropping it ends the machine: whoever waits fails, whoever holds is told, and the TTL cleans
/// up.
pub(crate) fn drive<M: Machine>(shared: Arc<Shared<M>>) -> impl Future<Output = ()> + Send {
    // Made here, so that a runtime that drops the future before its first poll ends it too.
    turn(EndOnDrop(shared))
}

async fn turn<M: Machine>(end: EndOnDrop<M>) {
    let shared = &end.0;
    let mut requests = Requests::default();
    let mut alarm = Alarm::default();
    loop {
        let now = shared.runtime().now();
        let timeout = shared.with(|state| {
            state.machine.handle_timeout(now);
            while let Some(transmit) = state.machine.poll_transmit(now) {
                requests.send(shared.transport(), transmit);
            }
            while let Some(id) = state.machine.poll_abort() {
                requests.abort(id);
            }
            (!state.is_over()).then(|| state.machine.poll_timeout())
        });
        let Some(timeout) = timeout else {
            return;
        };
        alarm.set(timeout, shared.runtime());
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
            let now = shared.runtime().now();
            shared.with(|state| state.machine.handle_response(now, id, result));
        }
    }
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
struct Requests {
    running: FuturesUnordered<Abortable<BoxFuture<'static, Answered>>>,
    aborts: BTreeMap<RequestId, AbortHandle>,
}

type Answered = (RequestId, Result<Response, TransportError>);

impl Requests {
    fn send(&mut self, transport: &Arc<dyn Transport>, transmit: Transmit) {
        let Transmit { id, request } = transmit;
        tracing::trace!(?id, ?request, "sending");
        let transport = Arc::clone(transport);
        let exchange = async move {
            let result = transport.send(request).await;
            let status = result.as_ref().map(Response::status);
            tracing::trace!(?id, ?status, "answered");
            (id, result)
        };
        let (abort, registration) = AbortHandle::new_pair();
        self.aborts.insert(id, abort);
        self.running
            .push(Abortable::new(Box::pin(exchange), registration));
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

/// Tells everybody when the driver ends, by itself or with its runtime.
struct EndOnDrop<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Drop for EndOnDrop<M> {
    fn drop(&mut self) {
        self.0.end();
    }
}
