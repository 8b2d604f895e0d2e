//! What the workers share and wait with. The crate `races` has its own, whose every step a scheduler
//! may put off.

use std::time::Duration;

pub(crate) use std::sync::{Mutex, MutexGuard, mpsc};
pub(crate) use std::thread;

/// Waits for a message for `most` at most.
pub(crate) fn receive<T>(
    messages: &mpsc::Receiver<T>,
    most: Duration,
) -> Result<T, mpsc::RecvTimeoutError> {
    messages.recv_timeout(most)
}
