//! A world that uses tokio's clock. One task sleeps until the next event in the world is due, and
//! handles it. Under paused time tokio's clock jumps to that moment when everything else waits,
//! too.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use semaphore_core::adapter::Instant;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time;

use crate::world::World;

/// tokio's clock, counted from a moment on.
pub(crate) struct TokioTime {
    handle: Handle,
    origin: time::Instant,
    /// Something may be due earlier than before, or the world is gone.
    changed: Arc<Notify>,
}

impl TokioTime {
    #[expect(clippy::panic, reason = "documented at `MockConsul::on_tokio`")]
    pub(crate) fn begin() -> Self {
        let Ok(handle) = Handle::try_current() else {
            panic!(
                "`MockConsul::on_tokio` was called outside of a tokio runtime: call it in a \
                 `#[tokio::test(start_paused = true)]`, or make a world with separate time by `MockConsul::new`"
            )
        };
        Self {
            handle,
            origin: time::Instant::now(),
            changed: Arc::default(),
        }
    }

    /// Makes the world handle what is due, as long as it exists.
    pub(crate) fn keep(&self, world: Weak<World>) {
        let changed = Arc::clone(&self.changed);
        let origin = self.origin;
        self.spawn(async move {
            while let Some(due) = world.upgrade().map(|world| world.catch_up()) {
                let at = due.and_then(|due| origin.checked_add(due.since_origin()));
                match at {
                    Some(at) => drop(time::timeout_at(at, changed.notified()).await),
                    None => changed.notified().await,
                }
            }
        });
    }

    pub(crate) fn now(&self) -> Instant {
        // Whether a clock is paused depends on the runtime, and this may be any thread.
        let _inside = self.handle.enter();
        Instant::from_origin(time::Instant::now().saturating_duration_since(self.origin))
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        let sleep = {
            let _inside = self.handle.enter();
            time::sleep(duration)
        };
        sleep.await;
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }

    pub(crate) fn block_on(&self, future: impl Future<Output = ()>) {
        assert!(
            !self.is_paused(),
            "a thread waits here by a blocking handle, and tokio's time is paused, which leaps over what threads do. Give \
             blocking handles a world of `MockConsul::new`, and begin their threads with `MockConsul::spawn_thread`; or await the \
             handles that are not blocking"
        );
        self.handle.block_on(future);
    }

    /// Whether tokio's clock stands still while the real one runs. It may jump during one check,
    /// but hardly during each.
    fn is_paused(&self) -> bool {
        let _inside = self.handle.enter();
        (0..3).any(|_| {
            let before = time::Instant::now();
            let real = std::time::Instant::now();
            while real.elapsed().is_zero() {
                std::hint::spin_loop();
            }
            time::Instant::now() == before
        })
    }

    pub(crate) fn poke(&self) {
        self.changed.notify_one();
    }
}

impl Drop for TokioTime {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}
