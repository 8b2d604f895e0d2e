//! A program on a host, which a test can pause and kill.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semaphore_core::adapter::{
    BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError, Unfinished,
};
use semaphore_core::error::ClosedBy;

use crate::client::MockClient;

/// A [`MockClient`] whose tasks run only while its process does. Clones are the same process.
///
/// ```
/// use std::time::Duration;
///
/// use transport_mock::adapter::Runtime as _;
/// use transport_mock::{MockConsul, MockProcess};
///
/// let world = MockConsul::new(7);
/// let process = MockProcess::new(&world.client("node-1"));
/// let program = world.start(process.living({
///     let process = process.clone();
///     async move { process.sleep(Duration::from_secs(1)).await }
/// }));
/// process.pause();
/// world.advance(Duration::from_secs(60));
/// process.go_on();
/// assert_eq!(world.run(program), Some(()));
///
/// let program = world.start(process.living(std::future::pending::<()>()));
/// process.kill();
/// assert_eq!(world.run(program), None);
/// ```
#[derive(Clone)]
pub struct MockProcess {
    client: MockClient,
    process: Arc<Process>,
}

impl MockProcess {
    /// A new process on this host.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn new(client: &MockClient) -> Self {
        Self {
            client: client.clone(),
            process: Arc::default(),
        }
    }

    /// The host that it runs on.
    pub fn client(&self) -> &MockClient {
        &self.client
    }

    /// Nothing that was spawned here runs until [`Self::go_on`]. Clocks run, and answers arrive.
    pub fn pause(&self) {
        self.process.change(State::Paused);
    }

    /// Ends [`Self::pause`].
    pub fn go_on(&self) {
        if self.process.lock().suspended_at.is_none() {
            self.process.change(State::Running);
        }
    }

    /// Like [`Self::pause`], and its timers stand still, too, as those of Linux do while the machine is
    /// suspended. Its clock runs on.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn suspend(&self) {
        self.process.change(State::Paused);
        let now = self.client.timer();
        self.process.lock().suspended_at.get_or_insert(now);
    }

    /// Ends [`Self::suspend`]. What was left of each sleep is slept now.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn wake_up(&self) {
        let now = self.client.timer();
        {
            let mut inner = self.process.lock();
            if let Some(since) = inner.suspended_at.take() {
                inner.suspended += now.saturating_since(since);
            }
        }
        self.process.change(State::Running);
    }

    /// Drops everything that was spawned here, as the end of a process does.
    pub fn kill(&self) {
        self.process.change(State::Killed);
    }

    /// Ends the process as if its `main` had returned. Unlike [`Self::kill`], its drivers finish
    /// their work, within the time of their [farewell](semaphore_core::Builder::farewell).
    pub fn exit(&self) {
        self.process.change(State::Exited);
    }

    /// Runs `future` as a part of this process. Returns `None` if the process was killed.
    pub fn living<F>(&self, future: F) -> impl Future<Output = Option<F::Output>> + Send + use<F>
    where
        F: Future + Send + 'static,
    {
        let living = self.process.living(future);
        let living = self.client.process().living(living);
        async move { living.await.flatten() }
    }
}

impl fmt::Debug for MockProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.process.lock().state;
        f.debug_struct("MockProcess")
            .field("client", &self.client)
            .field("state", &state)
            .finish()
    }
}

#[async_trait::async_trait]
impl Transport for MockProcess {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.client.send(request).await
    }

    fn address(&self) -> Option<String> {
        self.client.address()
    }
}

#[async_trait::async_trait]
impl Runtime for MockProcess {
    fn now(&self) -> Instant {
        self.client.now()
    }

    async fn sleep(&self, duration: Duration) {
        let (since, before) = (self.client.timer(), self.process.lock().suspended);
        self.client.sleep(duration).await;
        loop {
            let stood_still = self.process.lock().suspended.saturating_sub(before);
            let passed = self.client.timer().saturating_since(since);
            let left = duration.saturating_sub(passed.saturating_sub(stood_still));
            if stood_still.is_zero() || left.is_zero() {
                return;
            }
            self.client.sleep(left).await;
        }
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        let living = self.living(future);
        self.client.spawn(Box::pin(async move {
            living.await;
        }))
    }

    fn ended(&self) -> Option<ClosedBy> {
        self.client.ended()
    }

    fn seed(&self) -> u64 {
        self.client.seed()
    }

    fn finish(&self, rest: Unfinished) {
        if self.process.lock().state != State::Exited {
            return;
        }
        let client = Arc::new(self.client.clone());
        let finished = rest.finish(client.clone(), client);
        let finishing = Box::pin(async move {
            finished.await;
        });
        // If the world is gone, nothing can be given back.
        let _ = self.client.spawn(finishing);
    }
}

/// The state of one process. Each host has one; a [`MockProcess`] is another one on it.
#[derive(Default)]
pub(crate) struct Process(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    state: State,
    /// The wakers that wait for the next change, in the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    came: u64,
    /// Since when its timers have stood still, and how long they did before.
    suspended_at: Option<Instant>,
    suspended: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    Paused,
    Killed,
    Exited,
}

impl State {
    fn is_over(self) -> bool {
        matches!(self, Self::Killed | Self::Exited)
    }
}

impl Process {
    pub(crate) fn kill(&self) {
        self.change(State::Killed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().state.is_over()
    }

    /// Runs `future` as a part of this process. Returns `None` if the process was killed.
    pub(crate) fn living<F: Future>(self: &Arc<Self>, future: F) -> Living<F> {
        Living {
            process: Arc::clone(self),
            place: None,
            future: Some(Box::pin(future)),
        }
    }

    fn change(&self, to: State) {
        let mut inner = self.lock();
        if !inner.state.is_over() {
            inner.state = to;
        }
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        for waker in waiting.into_values() {
            waker.wake();
        }
    }

    /// Registers for the next change.
    fn state(&self, place: &mut Option<u64>, cx: &Context<'_>) -> State {
        let mut inner = self.lock();
        let known = place.and_then(|place| inner.waiting.get_mut(&place));
        if let Some(waker) = known {
            waker.clone_from(cx.waker());
        } else {
            inner.came += 1;
            let came = inner.came;
            inner.waiting.insert(came, cx.waker().clone());
            *place = Some(came);
        }
        inner.state
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that lives as long as its process.
pub(crate) struct Living<F: Future> {
    process: Arc<Process>,
    /// Its place among the wakers.
    place: Option<u64>,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Living<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.process.state(&mut this.place, cx) {
            State::Paused => return Poll::Pending,
            State::Killed | State::Exited => {
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

impl<F: Future> Drop for Living<F> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let waker = self.process.lock().waiting.remove(&place);
            drop(waker);
        }
    }
}
