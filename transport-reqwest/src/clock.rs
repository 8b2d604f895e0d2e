//! What time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semaphore_core::adapter::Instant;

/// Tokio's clock is never ahead of the system's by more than this, unless a test moved it.
const MOVED: Duration = Duration::from_secs(1);

/// A clock that counts while the machine is suspended, as Consul's does. If a test moves tokio's
/// clock, this one follows: otherwise sleeps would end before the clock shows it, and a lease would
/// last too long.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    system: boot_time::Instant,
    tokio: tokio::time::Instant,
    is_moved: Arc<AtomicBool>,
}

impl Clock {
    /// Starts at zero. Call it within tokio's runtime.
    pub(crate) fn start() -> Self {
        Self {
            system: boot_time::Instant::now(),
            tokio: tokio::time::Instant::now(),
            is_moved: Arc::default(),
        }
    }

    /// The present time. Call it within tokio's runtime.
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
