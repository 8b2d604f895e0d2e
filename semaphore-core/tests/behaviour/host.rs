//! A host whose process a test can pause and kill.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semaphore_core::{BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError};
use transport_mock::MockClient;

/// A [`MockClient`] that runs what it is given only while its process does.
#[derive(Clone)]
pub(crate) struct Host {
    client: MockClient,
    process: Arc<Process>,
}

impl Host {
    pub(crate) fn new(client: &MockClient) -> Self {
        Self {
            client: client.clone(),
            process: Arc::default(),
        }
    }

    /// Nothing spawned here runs until [`Self::go_on`]. Clocks and answers go on.
    pub(crate) fn pause(&self) {
        self.process.change(State::Paused);
    }

    pub(crate) fn go_on(&self) {
        self.process.change(State::Running);
    }

    /// Drops everything that was spawned here, as the end of a process does.
    pub(crate) fn kill(&self) {
        self.process.change(State::Killed);
    }

    /// Runs `future` as a part of this process. No output when the process was killed.
    pub(crate) fn living<F: Future + Send + 'static>(&self, future: F) -> Living<F> {
        Living {
            process: Arc::clone(&self.process),
            future: Some(Box::pin(future)),
        }
    }
}

#[async_trait::async_trait]
impl Transport for Host {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.client.send(request).await
    }
}

#[async_trait::async_trait]
impl Runtime for Host {
    fn now(&self) -> Instant {
        self.client.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.client.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let living = self.living(future);
        self.client.spawn(Box::pin(async move {
            living.await;
        }));
    }

    fn seed(&self) -> u64 {
        self.client.seed()
    }
}

#[derive(Default)]
struct Process(Mutex<(State, Vec<Waker>)>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    Paused,
    Killed,
}

impl Process {
    fn change(&self, to: State) {
        let mut inner = self.0.lock().expect("no panic elsewhere");
        if inner.0 != State::Killed {
            inner.0 = to;
        }
        let wakers = std::mem::take(&mut inner.1);
        drop(inner);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Registers for the next change.
    fn state(&self, cx: &Context<'_>) -> State {
        let mut inner = self.0.lock().expect("no panic elsewhere");
        if !inner.1.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.1.push(cx.waker().clone());
        }
        inner.0
    }
}

/// A future that lives as long as its process.
pub(crate) struct Living<F: Future> {
    process: Arc<Process>,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Living<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.process.state(cx) {
            State::Paused => return Poll::Pending,
            State::Killed => {
                self.future = None;
                return Poll::Ready(None);
            }
            State::Running => {}
        }
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}
