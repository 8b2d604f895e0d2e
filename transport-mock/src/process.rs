//! A program on a host, which a test can pause and kill.

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

use crate::client::MockClient;

/// A [`MockClient`] that runs what it is given only while its process does. Clones are the same
/// process.
///
/// ```
/// use std::time::Duration;
///
/// use semaphore_core::adapter::Runtime as _;
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
    pub fn new(client: &MockClient) -> Self {
        Self {
            client: client.clone(),
            process: Arc::default(),
        }
    }

    /// The host that it runs on.
    pub fn client(&self) -> &MockClient {
        &self.client
    }

    /// Nothing that was spawned here runs until [`Self::go_on`]. Clocks and answers go on.
    pub fn pause(&self) {
        self.process.change(State::Paused);
    }

    /// Ends [`Self::pause`].
    pub fn go_on(&self) {
        self.process.change(State::Running);
    }

    /// Drops everything that was spawned here, as the end of a process does.
    pub fn kill(&self) {
        self.process.change(State::Killed);
    }

    /// Like [`Self::kill`], as a process ends whose `main` returns: what its drivers have left to do is still done, in the time
    /// of their [farewell](semaphore_core::Builder::farewell).
    pub fn exit(&self) {
        self.process.change(State::Exited);
    }

    /// Runs `future` as a part of this process. No output when the process was killed.
    pub fn living<F>(&self, future: F) -> impl Future<Output = Option<F::Output>> + Send + use<F>
    where
        F: Future + Send + 'static,
    {
        Living {
            process: Arc::clone(&self.process),
            future: Some(Box::pin(future)),
        }
    }
}

impl fmt::Debug for MockProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.process.lock().0;
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
        self.client.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        let living = self.living(future);
        self.client.spawn(Box::pin(async move {
            living.await;
        }))
    }

    fn seed(&self) -> u64 {
        self.client.seed()
    }

    fn finish(&self, rest: Unfinished) {
        if self.process.lock().0 != State::Exited {
            return;
        }
        let client = Arc::new(self.client.clone());
        let finished = rest.finish(client.clone(), client);
        let finishing = Box::pin(async move {
            finished.await;
        });
        // Where the world is no more, there is nobody to give anything back to.
        let _ = self.client.spawn(finishing);
    }
}

#[derive(Default)]
struct Process(Mutex<(State, Vec<Waker>)>);

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
    fn change(&self, to: State) {
        let mut inner = self.lock();
        if !inner.0.is_over() {
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
        let mut inner = self.lock();
        if !inner.1.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.1.push(cx.waker().clone());
        }
        inner.0
    }

    fn lock(&self) -> MutexGuard<'_, (State, Vec<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that lives as long as its process.
struct Living<F: Future> {
    process: Arc<Process>,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Living<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.process.state(cx) {
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
