use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{BlockOn, BoxFuture, Instant, Lanes as _, Runtime, Unfinished};
use semaphore_core::error::ClosedBy;
use tokio::runtime::{Handle, TryCurrentError};

use crate::transport::ReqwestTransport;

#[async_trait]
impl Runtime for ReqwestTransport {
    /// Goes on counting while the machine is suspended, as Consul's own clock does.
    fn now(&self) -> Instant {
        self.wire.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.wire.sleep(duration).await;
    }

    /// Uses the runtime that the caller awaits it on, if that is another one.
    async fn timer(&self, duration: Duration) {
        let here = || tokio::time::sleep(duration);
        let timer = Handle::try_current().is_ok().then(|| catch_unwind(here));
        match timer {
            Some(Ok(timer)) => timer.await,
            // There is no other runtime, or it has no timers.
            Some(Err(_)) | None => self.sleep(duration).await,
        }
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.wire.life.ensure_able(&self.wire.handle)?;
        self.wire.handle.spawn(future);
        Ok(())
    }

    fn ended(&self) -> Option<ClosedBy> {
        self.wire.life.end()
    }

    /// From the operating system's randomness, through the standard library's hash keys.
    fn seed(&self) -> u64 {
        seed()
    }

    /// Called when the tokio runtime is dropped. The drop waits until this returns.
    fn finish(&self, rest: Unfinished) {
        self.wire.farewell.finish(rest, self.wire.anew());
    }
}

impl BlockOn for ReqwestTransport {
    /// Blocks a thread that does not belong to the runtime.
    ///
    /// A current-thread runtime must be running on another thread: this one does not drive its
    /// sockets and timers.
    ///
    /// # Panics
    /// When called from async code, as tokio does.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.wire.handle.block_on(future);
    }

    /// Ends in time even if nobody runs the runtime.
    fn block_on_for(&self, timeout: Duration, mut future: BoxFuture<'_, ()>) {
        // This panics within async code, with tokio's message.
        self.wire.handle.block_on(async {});
        let end = std::time::Instant::now().checked_add(timeout);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            let polled = {
                let _inside = self.wire.handle.enter();
                future.as_mut().poll(&mut context)
            };
            let left = end.map(|end| end.saturating_duration_since(std::time::Instant::now()));
            match (polled, left) {
                (Poll::Ready(()), _) | (Poll::Pending, Some(Duration::ZERO)) => return,
                (Poll::Pending, Some(left)) => thread::park_timeout(left),
                (Poll::Pending, None) => thread::park(),
            }
        }
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Why a transport can't be built outside of tokio: the cause of a
/// [`BuildError::Backend`](semaphore_core::BuildError::Backend).
#[derive(Debug, thiserror::Error)]
#[error(
    "built outside of a tokio runtime: build it in an async function that tokio runs, or while the guard of \
     `Runtime::enter` lives"
)]
pub struct NoRuntime(#[source] pub(crate) TryCurrentError);

/// An unpredictable number.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
