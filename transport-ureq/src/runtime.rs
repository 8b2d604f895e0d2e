use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{BlockOn, BoxFuture, Instant, Lanes as _, Runtime};

use crate::transport::UreqTransport;

/// Plain threads: a task is a thread of its own.
#[async_trait]
impl Runtime for UreqTransport {
    /// Goes on counting while the machine is suspended, as Consul's own clock does.
    fn now(&self) -> Instant {
        self.wire.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.wire.sleep(duration).await;
    }

    /// Runs the future on a new thread.
    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.wire.prepare()?;
        thread::Builder::new()
            .name("consul-task".to_owned())
            .spawn(|| async_io::block_on(future))?;
        Ok(())
    }

    /// From the operating system's randomness, by way of the standard library's hash keys.
    fn seed(&self) -> u64 {
        seed()
    }
}

impl BlockOn for UreqTransport {
    /// Waits on any thread that may block.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        async_io::block_on(future);
    }
}

/// A number that nobody foresees.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
