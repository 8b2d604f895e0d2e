//! What time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semaphore_core::adapter::Instant;

/// By so much tokio's clock is never ahead of the system's unless a test moved it.
const MOVED: Duration = Duration::from_secs(1);

/// Goes on counting while the machine is suspended, as Consul's own clock does, and follows tokio's where a test moves that: a
/// clock that stood behind its own sleeps would let a lease last for longer than it is to.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    system: boot_time::Instant,
    tokio: tokio::time::Instant,
    is_moved: Arc<AtomicBool>,
}

impl Clock {
    /// It begins at zero, within tokio's runtime.
    pub(crate) fn start() -> Self {
        Self {
            system: boot_time::Instant::now(),
            tokio: tokio::time::Instant::now(),
            is_moved: Arc::default(),
        }
    }

    /// The present time, asked within tokio's runtime.
    pub(crate) fn now(&self) -> Instant {
        let tokio = tokio::time::Instant::now().saturating_duration_since(self.tokio);
        let system = boot_time::Instant::now().duration_since(self.system);
        if tokio > system + MOVED && !self.is_moved.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "tokio's time is paused or was moved: requests to a real agent time out at once. In such a test, connect to \
                 `transport_mock::MockConsul::on_tokio`"
            );
        }
        Instant::from_origin(system.max(tokio))
    }
}
