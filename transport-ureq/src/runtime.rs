use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{BlockOn, BoxFuture, Instant, Lanes as _, Runtime};
use semaphore_core::error::ClosedBy;

use crate::tasks;
use crate::transport::UreqTransport;

/// Plain threads. All tasks of a process share one thread.
#[async_trait]
impl Runtime for UreqTransport {
    /// Counts while the machine is suspended, as Consul's clock does.
    fn now(&self) -> Instant {
        self.wire.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.wire.sleep(duration).await;
    }

    /// Runs the future on the thread of the tasks.
    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.wire.prepare()?;
        tasks::spawn(future)
    }

    fn ended(&self) -> Option<ClosedBy> {
        self.wire.ended()
    }

    /// From the operating system's randomness, through the standard library's hash keys.
    fn seed(&self) -> u64 {
        seed()
    }

    /// Waits, because the thread of the tasks ends when `main` does.
    fn linger(&self, rest: BoxFuture<'_, ()>) {
        tasks::wait_for(rest);
    }
}

impl BlockOn for UreqTransport {
    /// Blocks any thread that may block.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        async_io::block_on(future);
    }
}

/// An unpredictable number.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
