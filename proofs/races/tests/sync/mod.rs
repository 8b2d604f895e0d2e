//! The items of the module with this name in `transport-ureq`, with shuttle's types.

use std::time::Duration;

use shuttle::rand::Rng as _;
pub(crate) use shuttle::sync::{Mutex, MutexGuard, mpsc};
pub(crate) use shuttle::thread;

/// The time may end at any step, or never.
pub(crate) fn receive<T>(
    messages: &mpsc::Receiver<T>,
    _: Duration,
) -> Result<T, mpsc::RecvTimeoutError> {
    let mut random = shuttle::rand::thread_rng();
    let is_over_some_day = random.gen_ratio(1, 2);
    loop {
        match messages.try_recv() {
            Ok(message) => return Ok(message),
            Err(mpsc::TryRecvError::Disconnected) => {
                return Err(mpsc::RecvTimeoutError::Disconnected);
            }
            Err(mpsc::TryRecvError::Empty) => thread::yield_now(),
        }
        if is_over_some_day && random.gen_ratio(1, 20) {
            return Err(mpsc::RecvTimeoutError::Timeout);
        }
    }
}
