//! What the workers share and wait with. The crate `races` replaces this by types whose every step
//! a scheduler may delay.

use std::time::Duration;

pub(crate) use std::sync::{Mutex, MutexGuard, mpsc};
pub(crate) use std::thread;

/// Waits at most `most` for a message.
pub(crate) fn receive<T>(
    messages: &mpsc::Receiver<T>,
    most: Duration,
) -> Result<T, mpsc::RecvTimeoutError> {
    messages.recv_timeout(most)
}
