use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::thread;
use std::time::Duration;

use async_io::Timer;
use async_trait::async_trait;
use semaphore_core::{BlockOn, BoxFuture, Instant, Runtime};

use crate::transport::UreqTransport;

/// Plain threads: a task is a thread of its own.
#[async_trait]
impl Runtime for UreqTransport {
    /// Goes on counting while the machine is suspended, as Consul's own clock does.
    fn now(&self) -> Instant {
        Instant::from_origin(boot_time::Instant::now().duration_since(self.origin))
    }

    async fn sleep(&self, duration: Duration) {
        Timer::after(duration).await;
    }

    /// Runs the future on a new thread. Where the system gives none, the future is dropped.
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let spawned = thread::Builder::new()
            .name("consul-task".to_owned())
            .spawn(|| async_io::block_on(future));
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for a task of the semaphore");
        }
    }

    /// From the operating system's randomness, by way of the standard library's hash keys.
    fn seed(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }
}

impl BlockOn for UreqTransport {
    /// Waits on any thread that may block.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        async_io::block_on(future);
    }
}
