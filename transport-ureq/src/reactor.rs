//! Starts the thread and the descriptors that timers need.

use std::future::Future;
use std::io;
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;

/// Starts what async-io needs for timers. Otherwise async-io does so at the first timer, and panics
/// if the system gives no thread or descriptor. That would end a task that holds slots.
///
/// # Errors
/// If async-io panics. The next call tries again.
pub(crate) fn start() -> io::Result<()> {
    let started = catch_unwind(|| {
        let timer = pin!(Timer::after(Duration::from_secs(1)));
        let mut context = Context::from_waker(Waker::noop());
        let _ = timer.poll(&mut context);
    });
    started.map_err(|_| io::Error::other("no thread or descriptor for timers"))
}
