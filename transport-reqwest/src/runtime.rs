use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{BlockOn, BoxFuture, Instant, Lanes as _, Runtime, Unfinished};
use tokio::runtime::TryCurrentError;

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

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.wire.handle.spawn(future);
        Ok(())
    }

    /// From the operating system's randomness, by way of the standard library's hash keys.
    fn seed(&self) -> u64 {
        seed()
    }

    /// Where the tokio runtime is dropped: a farewell delays that by as long as it takes.
    fn finish(&self, rest: Unfinished) {
        self.wire.farewell.finish(rest, self.wire.anew());
    }
}

impl BlockOn for ReqwestTransport {
    /// Waits on a thread that is none of the runtime's.
    ///
    /// On a current-thread runtime, another thread must be running it: this one does not drive
    /// its sockets and timers.
    ///
    /// # Panics
    /// When called from within async code, as tokio does.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        self.wire.handle.block_on(future);
    }
}

/// Why there is no transport outside of tokio: the cause of a
/// [`BuildError::Backend`](semaphore_core::BuildError::Backend).
#[derive(Debug, thiserror::Error)]
#[error("called outside of a tokio runtime")]
pub struct NoRuntime(#[source] pub(crate) TryCurrentError);

/// A number that nobody foresees.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
