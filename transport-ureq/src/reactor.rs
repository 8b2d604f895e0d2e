//! The thread and the descriptors that timers need.

use std::future::Future;
use std::io;
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;

/// Has async-io start what it needs for timers. On its own it does so with the first timer that is waited for, and
/// panics where the system gives no thread or descriptor: then a task that holds slots would end.
///
/// # Errors
/// Where it panics. It tries again the next time.
pub(crate) fn start() -> io::Result<()> {
    let started = catch_unwind(|| {
        let timer = pin!(Timer::after(Duration::from_secs(1)));
        let mut context = Context::from_waker(Waker::noop());
        let _ = timer.poll(&mut context);
    });
    started.map_err(|_| io::Error::other("no thread or descriptor for timers"))
}
