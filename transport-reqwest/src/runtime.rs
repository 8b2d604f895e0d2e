use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::{BlockOn, BoxFuture, Instant, Runtime};

use crate::transport::ReqwestTransport;

#[async_trait]
impl Runtime for ReqwestTransport {
    /// Goes on counting while the machine is suspended, as Consul's own clock does.
    fn now(&self) -> Instant {
        Instant::from_origin(boot_time::Instant::now().duration_since(self.origin))
    }

    async fn sleep(&self, duration: Duration) {
        let sleep = {
            let _inside = self.handle.enter();
            tokio::time::sleep(duration)
        };
        sleep.await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.handle.spawn(future);
    }

    /// From the operating system's randomness, by way of the standard library's hash keys.
    fn seed(&self) -> u64 {
        RandomState::new().build_hasher().finish()
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
        self.handle.block_on(future);
    }
}
