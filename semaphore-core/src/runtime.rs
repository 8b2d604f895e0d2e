//! What the driver runs on, and what remains when the driver is dropped.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::select;

use crate::error::ClosedBy;
use crate::time::Instant;
use crate::transport::Transport;

/// A future on the heap that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A clock, timers, and tasks for the driver.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// The present time on a clock that never goes backwards.
    fn now(&self) -> Instant;

    /// Waits for `duration`.
    async fn sleep(&self, duration: Duration);

    /// Waits for `duration` by the caller's clock, for a caller's deadline. If the timers of this
    /// runtime may stand still together with its tasks, it should use the runtime that the caller
    /// awaits it on. The default is [`Self::sleep`].
    async fn timer(&self, duration: Duration) {
        self.sleep(duration).await;
    }

    /// Runs a future in the background until it ends.
    ///
    /// # Errors
    /// If there is nothing to run it on, such as a thread. The future is dropped then.
    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()>;

    /// Why it no longer runs anything, or `None` while it does: it has ended, or this process was
    /// forked off. It is called often, so it must be cheap. A [sleep](Self::sleep) under way may
    /// then end early. By default it never ends.
    fn ended(&self) -> Option<ClosedBy> {
        None
    }

    /// A number that differs between processes and calls. It seeds a participant's jitter, so that
    /// many that fail together do not retry together.
    fn seed(&self) -> u64;

    /// Called when the last handle was dropped before everything was given back. The driver
    /// continues meanwhile. `rest` ends when that is done, or when the time of a
    /// [farewell](crate::Builder::farewell) is over.
    ///
    /// A runtime whose threads end with `main` should wait for it on the calling thread, unless the
    /// driver needs that thread. By default nobody waits.
    fn linger(&self, rest: BoxFuture<'_, ()>) {
        drop(rest);
    }

    /// Called when a driver was dropped before everything was given back.
    ///
    /// A runtime that drops its tasks at its end should [finish](Unfinished::finish) it elsewhere
    /// and wait for it, since the program may end next. By default the TTL cleans up.
    fn finish(&self, rest: Unfinished) {
        drop(rest);
    }
}

/// A runtime on which a thread can wait for a future. The blocking handles need it.
pub trait BlockOn: Runtime {
    /// Runs `future` to its end on the calling thread.
    fn block_on(&self, future: BoxFuture<'_, ()>);

    /// Runs `future` for at most `timeout`, by the calling thread's clock, then drops it. The
    /// default uses a [sleep](Runtime::sleep), which takes longer if the runtime stands still.
    fn block_on_for(&self, timeout: Duration, future: BoxFuture<'_, ()>) {
        let timer = self.timer(timeout);
        self.block_on(Box::pin(async {
            select(future, timer).await;
        }));
    }
}

/// Writes a [`Runtime`] that passes everything on to another one.
macro_rules! passing_runtime {
    (impl $([$($generics:tt)*])? for $runtime:ty, |$this:ident| $inner:expr) => {
        #[::async_trait::async_trait]
        impl $(<$($generics)*>)? $crate::runtime::Runtime for $runtime {
            fn now(&self) -> $crate::time::Instant {
                let $this = self;
                $inner.now()
            }

            async fn sleep(&self, duration: ::core::time::Duration) {
                let $this = self;
                $inner.sleep(duration).await;
            }

            async fn timer(&self, duration: ::core::time::Duration) {
                let $this = self;
                $inner.timer(duration).await;
            }

            fn spawn(&self, future: $crate::runtime::BoxFuture<'static, ()>) -> ::std::io::Result<()> {
                let $this = self;
                $inner.spawn(future)
            }

            fn ended(&self) -> Option<$crate::error::ClosedBy> {
                let $this = self;
                $inner.ended()
            }

            fn seed(&self) -> u64 {
                let $this = self;
                $inner.seed()
            }

            fn linger(&self, rest: $crate::runtime::BoxFuture<'_, ()>) {
                let $this = self;
                $inner.linger(rest);
            }

            fn finish(&self, rest: $crate::runtime::Unfinished) {
                let $this = self;
                $inner.finish(rest);
            }
        }
    };
}
pub(crate) use passing_runtime;

passing_runtime!(impl[T: Runtime + ?Sized] for Arc<T>, |shared| (**shared));

impl<T: BlockOn + ?Sized> BlockOn for Arc<T> {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        T::block_on(self, future);
    }

    fn block_on_for(&self, timeout: Duration, future: BoxFuture<'_, ()>) {
        T::block_on_for(self, timeout, future);
    }
}

/// The remaining work of a dropped driver. It takes at most as long as a
/// [farewell](crate::Builder::farewell).
#[must_use = "a slot stays blocked until its session expires unless this is finished"]
pub struct Unfinished(Finish);

type Finish = Box<
    dyn FnOnce(Arc<dyn Transport>, Arc<dyn Runtime>) -> BoxFuture<'static, bool> + Send + 'static,
>;

impl Unfinished {
    pub(crate) fn new(
        finish: impl FnOnce(Arc<dyn Transport>, Arc<dyn Runtime>) -> BoxFuture<'static, bool>
        + Send
        + 'static,
    ) -> Self {
        Self(Box::new(finish))
    }

    /// Gives back what is held and cleans up. Returns whether nothing is left. The transport must
    /// go to the same agent, and the runtime must have the same clock, as the driver's.
    pub fn finish(
        self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> BoxFuture<'static, bool> {
        (self.0)(transport, runtime)
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_shared_runtime_blocks_and_is_seeded_as_the_one_inside_is() {
        #[derive(Default)]
        struct Noting(AtomicBool);

        #[async_trait]
        impl Runtime for Noting {
            fn now(&self) -> Instant {
                Instant::ORIGIN
            }

            async fn sleep(&self, _: Duration) {}

            fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
                drop(future);
                Ok(())
            }

            fn seed(&self) -> u64 {
                7
            }
        }

        impl BlockOn for Noting {
            fn block_on(&self, future: BoxFuture<'_, ()>) {
                drop(future);
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let shared = Arc::new(Noting::default());
        BlockOn::block_on(&shared, Box::pin(async {}));
        assert!(shared.0.load(Ordering::Relaxed));
        assert_eq!(Runtime::seed(&shared), 7);
    }
}
